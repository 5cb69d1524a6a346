"""What a question carries besides its text: variables, cells and files that the user mentioned, pasted or dropped.

In the message, each stands between marks that models know how to read. They are plain text, so that an attachment goes
wherever the message goes: to any vendor, into saved files, and back into the panel's box when the question is edited.

```
Which species is heaviest? @penguins

<attached name="@penguins" about="DataFrame 344×7">
DataFrame: 344 rows x 7 columns …
</attached>
```
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from nbagent.core.content.documents import document_note
from nbagent.core.content.images import Part, image_media_type, image_part, images_in, joined_content
from nbagent.core.content.marks import END_MARK, begin_mark, without_marks
from nbagent.core.content.pdf import PDF_MARK, pages_text, pdf_pages
from nbagent.core.history.history import estimate_tokens
from nbagent.core.messages import Content, LLMMessage
from nbagent.errors import ConfigurationError
from nbagent.notebook.kernel_tools.cell_outputs import CellOutputs
from nbagent.notebook.kernel_tools.described import described
from nbagent.notebook.kernel_tools.secret_values import HIDDEN, without_secrets
from nbagent.notebook.kernel_tools.variables import brief

#: Larger files are not read.
MAX_FILE_BYTES = 20_000_000
#: Characters of one attachment; a longer one is shortened.
MAX_CHARS = 100_000
_SEPARATORS = {".csv": ",", ".tsv": "\t"}
_MARK = re.compile(r'(?:\A|\n\n)<attached name="([^"\n]*)" about="([^"\n]*)">\n|\n</attached>')


@dataclass(frozen=True, slots=True)
class Attachment:
    """One of them: its `name` (`"@penguins"`, `"plot.png"`), what it is in a few words, and what the model reads."""

    name: str
    about: str
    content: Content

    @property
    def is_mention(self) -> bool:
        """Whether the question's text names it, so that it comes again with the text."""
        return self.name.startswith(("@", "/"))

    @property
    def tokens(self) -> int:
        """A rough count."""
        return estimate_tokens(LLMMessage("user", self.content))


# -- in a message -----------------------------------------------------------------------------------------------------


def with_attachments(text: str, attachments: Iterable[Attachment]) -> Content:
    """The content of a question.

    >>> print(with_attachments("Odd? @n", [Attachment("@n", "int 3", "3")]))
    Odd? @n
    <BLANKLINE>
    <attached name="@n" about="int 3">
    3
    </attached>
    """
    parts = [_text_part(text)] if text else []
    for each in attachments:
        space = "\n\n" if parts else ""
        parts.append(_text_part(f"{space}{begin_mark(each.name, each.about)}"))
        parts += map(_without_marks, _parts(each.content))
        parts.append(_text_part(END_MARK))
    return joined_content(parts)


def split_attachments(content: Content) -> tuple[Content, list[Attachment]]:
    """The inverse: what the user wrote, and the attachments.

    >>> split_attachments(with_attachments("Odd? @n", [Attachment("@n", "int 3", "3")]))
    ('Odd? @n', [Attachment(name='@n', about='int 3', content='3')])
    """
    own: list[Part] = []
    attached: list[tuple[str, str, list[Part]]] = []
    target = own
    for piece in _pieces(content):
        if isinstance(piece, dict):
            target.append(piece)
        elif piece[1] is None:
            target = own
        else:
            attached.append((piece[1], piece[2], target := []))
    return joined_content(own), [Attachment(name, about, joined_content(parts)) for name, about, parts in attached]


def _pieces(content: Content) -> Iterator[Part | re.Match[str]]:
    """The parts and the marks between them, in order."""
    for part in _parts(content):
        if part.get("type") != "text":
            yield part
            continue
        done = 0
        for mark in _MARK.finditer(part["text"]):
            if text := part["text"][done : mark.start()]:
                yield _text_part(text)
            yield mark
            done = mark.end()
        if text := part["text"][done:]:
            yield _text_part(text)


def _parts(content: Content) -> list[Part]:
    return [_text_part(content)] if isinstance(content, str) else content


def _without_marks(part: Part) -> Part:
    return _text_part(without_marks(part["text"])) if part["type"] == "text" else part


def _text_part(text: str) -> Part:
    return {"type": "text", "text": text}


# -- from values and files --------------------------------------------------------------------------------------------


def from_value(name: str, value: Any) -> Attachment:
    """The variable `name`, converted as `{name}` is in a cell, without secrets."""
    return _checked(f"@{name}", about_value(name, value), described(name, value, max_chars=MAX_CHARS))


def about_value(name: str, value: Any) -> str:
    """A variable in a few words, without secrets: `DataFrame 344×7`."""
    about = str(without_secrets(brief(value), name=name))
    return re.sub(r"of shape \((.*?),?\)", lambda found: found[1].replace(", ", "×"), about)


def from_cell(number: int, outputs: CellOutputs) -> Attachment:
    """The source and outputs of the cell `In [number]`, without secrets. Raises `ToolError` if there is none."""
    return _checked(f"@cell:{number}", f"In [{number}]", without_secrets(outputs.read(number), MAX_CHARS))


def from_file(name: str, path: str) -> Attachment:
    """A file of text, a table or an image, without secrets. Raises `ConfigurationError`."""
    try:
        with open(path, "rb") as file:
            return from_bytes(name, file.read(MAX_FILE_BYTES + 1))
    except OSError as error:
        raise ConfigurationError(f"{name} can't be read: {error.strerror or error}.") from None


def from_bytes(name: str, data: bytes) -> Attachment:
    """What a file of this name holds. Raises `ConfigurationError`."""
    if len(data) > MAX_FILE_BYTES:
        limit = f"it has more than {MAX_FILE_BYTES // 10**6} MB"
        raise not_attached(name, f"{limit}. Load it into a variable, and mention a part of that")
    if image_media_type(data):
        return from_image(name, data)
    if data.startswith(PDF_MARK):
        pages = _pages(name, data)
        about = f"PDF, {len(pages)} page{'s' * (len(pages) != 1)}"
        return _checked(name, about, without_secrets(pages_text(pages), MAX_CHARS))
    ending = os.path.splitext(name.rstrip('"'))[1].lower()
    if ending in _SEPARATORS and (frame := _table(data, _SEPARATORS[ending])) is not None:
        return _checked(name, f"table {len(frame)}×{len(frame.columns)}", described("", frame, max_chars=MAX_CHARS))
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        fix = "Load it into a variable, and mention that"
        raise not_attached(name, f"it is neither text in UTF-8 nor a PNG, JPEG, GIF or WebP. {fix}")
    about = f"{len(text):,} characters{', shortened' if len(text) > MAX_CHARS else ''}"
    return _checked(name, about, without_secrets(text, MAX_CHARS))


def from_image(name: str, value: Any) -> Attachment:
    """An image, in any form that a message can hold. Raises `ConfigurationError`."""
    parts = [image_part(value)]
    size = [f"{'×'.join(map(str, image.size or ()))} {image.format}" for image in images_in(parts)]
    return Attachment(name, " ".join(["image", *size]), parts)


def from_document(part: Part) -> Attachment:
    """A document that is a part of a message already."""
    return Attachment(part["name"], document_note(part).strip("[]"), [part])


def _checked(name: str, about: str, content: Content) -> Attachment:
    """The attachment; it says if something is hidden in it because it looks like a secret."""
    texts = [part.get("text", "") for part in _parts(content)]
    is_masked = any(HIDDEN in text for text in texts)
    return Attachment(name, f"{about}, secrets hidden" if is_masked else about, content)


def _pages(name: str, data: bytes) -> list[str]:
    """The text of each page of a PDF. Raises `ConfigurationError` if it has none."""
    try:
        return pdf_pages(data)
    except ConfigurationError as error:
        raise not_attached(name, str(error)) from error.__cause__


def _table(data: bytes, separator: str) -> Any:
    """A data frame, or None if it is none."""
    import pandas as pd

    try:
        return pd.read_csv(io.BytesIO(data), sep=separator, low_memory=False)
    except ValueError:
        return None


def not_attached(name: str, reason: str) -> ConfigurationError:
    """The error for something that the user named, but that can't be sent."""
    return ConfigurationError(f"{name} can't be attached: {reason}.")
