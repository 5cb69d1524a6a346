"""Creates attachments from variables, cells and files that a prompt mentions, and from dropped or pasted files."""

from __future__ import annotations

import io
import os
import re
from typing import Any

from nbagent.chat.attachments import Attachment, parts_of
from nbagent.core.content.documents import document_note
from nbagent.core.content.images import Part, image_media_type, image_part, images_in, joined_content
from nbagent.core.content.pdf import PDF_MARK, pages_text, pdf_pages
from nbagent.core.messages import Content
from nbagent.errors import ConfigurationError
from nbagent.notebook.kernel_tools.cell_outputs import CellOutputs
from nbagent.notebook.kernel_tools.described import described
from nbagent.notebook.kernel_tools.secret_values import HIDDEN, without_secrets
from nbagent.notebook.kernel_tools.variables import brief, user_names

#: Larger files are not read.
MAX_FILE_BYTES = 20_000_000
#: Variables that an empty panel lists.
MAX_NAMED = 4
#: Characters of one attachment. A longer one is shortened.
MAX_CHARS = 100_000
_SEPARATORS = {".csv": ",", ".tsv": "\t"}


def from_value(name: str, value: Any) -> Attachment:
    """The variable `name` as the model would read `{name}` in a cell, without secrets."""
    return _checked(f"@{name}", about_value(name, value), described(name, value, max_chars=MAX_CHARS))


def about_value(name: str, value: Any) -> str:
    """A short description of a variable, without secrets: `DataFrame 344×7`."""
    about = str(without_secrets(brief(value), name=name))
    return re.sub(r"of shape \((.*?),?\)", lambda found: found[1].replace(", ", "×"), about)


def data_in(shell: Any) -> list[tuple[str, str]]:
    """The notebook's tables and arrays, each with a description, newest first; if there are none, lists and dicts."""
    variables = {} if shell is None else shell.user_ns
    names = reversed(user_names(variables, getattr(shell, "user_ns_hidden", {})))
    known = [(name, variables[name]) for name in names if name in variables]
    shaped = [each for each in known if re.search(r" of shape \(\d", brief(each[1]))]
    found = shaped or [each for each in known if isinstance(each[1], (list, dict)) and each[1]]
    return [(name, about_value(name, value)) for name, value in found[:MAX_NAMED]]


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
    """The content of a file with this name. Raises `ConfigurationError`."""
    if len(data) > MAX_FILE_BYTES:
        limit = f"it has more than {MAX_FILE_BYTES // 10**6} MB"
        raise not_attached(name, f"{limit}. Load it into a variable, and mention a part of it")
    if image_media_type(data):
        return from_image(name, data)
    if data.startswith(PDF_MARK):
        try:
            pages = pdf_pages(data)
        except ConfigurationError as error:  # it has no text
            raise not_attached(name, str(error)) from error.__cause__
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
        raise not_attached(name, f"it is neither UTF-8 text nor a PNG, JPEG, GIF or WebP image. {fix}")
    about = f"{len(text):,} characters{', shortened' if len(text) > MAX_CHARS else ''}"
    return _checked(name, about, without_secrets(text, MAX_CHARS))


def from_resource(name: str, content: Content) -> Attachment:
    """An MCP server's resource, without secrets."""
    parts = [
        {**part, "text": str(without_secrets(part["text"], MAX_CHARS))} if part["type"] == "text" else part
        for part in parts_of(content)
    ]
    return _checked(name, "resource of an MCP server", joined_content(parts))


def from_image(name: str, value: Any) -> Attachment:
    """An image in any form that messages accept. Raises `ConfigurationError`."""
    parts = [image_part(value)]
    size = [f"{'×'.join(map(str, image.size or ()))} {image.format}" for image in images_in(parts)]
    return Attachment(name, " ".join(["image", *size]), parts)


def from_document(part: Part) -> Attachment:
    """A document that is already a message part."""
    return Attachment(part["name"], document_note(part).strip("[]"), [part])


def _checked(name: str, about: str, content: Content) -> Attachment:
    """The attachment. Its description says if secrets in it are hidden."""
    texts = [part.get("text", "") for part in parts_of(content)]
    is_masked = any(HIDDEN in text for text in texts)
    return Attachment(name, f"{about}, secrets hidden" if is_masked else about, content)


def _table(data: bytes, separator: str) -> Any:
    """The data frame; None if it can't be parsed."""
    import pandas as pd

    try:
        return pd.read_csv(io.BytesIO(data), sep=separator, low_memory=False)
    except ValueError:
        return None


def not_attached(name: str, reason: str) -> ConfigurationError:
    """The error for something that can't be attached."""
    return ConfigurationError(f"{name} can't be attached: {reason}.")
