"""A prompt's attachments: variables, cells and files that the user mentioned, pasted or dropped.

In the message, each attachment is enclosed in tags that models can read. The marks are plain text, so attachments work
with any provider, and they survive saving and editing the prompt.

```
Which species is heaviest? @penguins

<attached name="@penguins" about="DataFrame 344×7">
DataFrame: 344 rows x 7 columns …
</attached>
```
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from nbagent.core.content.images import Part, joined_content
from nbagent.core.content.marks import END_MARK, begin_mark, without_marks
from nbagent.core.history.history import estimate_tokens
from nbagent.core.messages import Content, LLMMessage

_MARK = re.compile(r'(?:\A|\n\n)<attached name="([^"\n]*)" about="([^"\n]*)">\n|\n</attached>')


@dataclass(frozen=True, slots=True)
class Attachment:
    """An attachment: its `name` (such as `"@penguins"` or `"plot.png"`), a short description, and the content for the
    model.
    """

    name: str
    about: str
    content: Content

    @property
    def is_mention(self) -> bool:
        """Whether the prompt's text names the attachment. If so, it is attached again when the edited text is sent."""
        return self.name.startswith(("@", "/"))

    @property
    def tokens(self) -> int:
        """An estimate of the attachment's tokens."""
        return estimate_tokens(LLMMessage("user", self.content))


def with_attachments(text: str, attachments: Iterable[Attachment]) -> Content:
    """Return the content of a prompt: its text, followed by the attachments.

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
        parts += map(_without_marks, parts_of(each.content))
        parts.append(_text_part(END_MARK))
    return joined_content(parts)


def split_attachments(content: Content) -> tuple[Content, list[Attachment]]:
    """The inverse of `with_attachments`: the user's text and the attachments.

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
    for part in parts_of(content):
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


def parts_of(content: Content) -> list[Part]:
    """The content as a list of parts."""
    return [_text_part(content)] if isinstance(content, str) else content


def _without_marks(part: Part) -> Part:
    return _text_part(without_marks(part["text"])) if part["type"] == "text" else part


def _text_part(text: str) -> Part:
    return {"type": "text", "text": text}
