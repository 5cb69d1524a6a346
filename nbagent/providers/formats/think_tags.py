"""Splits `<think>…</think>` from a text stream.

Some providers, and local servers without a reasoning parser, send thinking in such tags. An opening tag counts only at
the start of an answer or right after another block, so an answer that mentions tags is unchanged. Tags may be cut
anywhere.
"""

from __future__ import annotations

import re

_OPEN = ("<think>", "<thinking>", "<mm:think>")
#: A closing tag on a line of its own, as templates write it.
_CLOSED = re.compile(rf"^[ \t]*</(?:{'|'.join(tag[1:-1] for tag in _OPEN)})>\n", re.MULTILINE)


class ThinkTags:
    """Splits text into `(text, thinking)`.

    >>> tags = ThinkTags()
    >>> tags.feed("<thi"), tags.feed("nk>hm</think>"), tags.feed("Yes.")
    (('', ''), ('', 'hm'), ('Yes.', ''))
    """

    __slots__ = ("_close", "_closed", "_held", "seeking")

    def __init__(self) -> None:
        self._held = ""
        self._close = ""
        #: Whether a block has ended. The whitespace after it is dropped.
        self._closed = False
        #: False once ordinary text has started: the rest is text.
        self.seeking = True

    def feed(self, piece: str) -> tuple[str, str]:
        """The text and thinking that can be passed on, from `piece` and the text held back earlier."""
        if not self.seeking:
            return piece, ""
        held, self._held = self._held + piece, ""
        thinking = ""
        while True:
            if self._close:
                inside, ended, rest = held.partition(self._close)
                if not ended:
                    cut = len(held) - _overlap(held, self._close)
                    self._held = held[cut:]
                    return "", thinking + held[:cut]
                thinking += inside
                held, self._close, self._closed = rest, "", True
            start = held.lstrip()
            tag = next((tag for tag in _OPEN if start.startswith(tag)), "")
            if tag:
                held, self._close = start[len(tag) :].lstrip("\r\n"), f"</{tag[1:]}"
            elif any(tag.startswith(start) for tag in _OPEN):  # perhaps the start of a tag
                self._held = held
                return "", thinking
            else:
                self.seeking = False
                return self._text(held), thinking

    def skip(self) -> None:
        """Pass on the rest unchanged, because thinking arrives in a separate field."""
        self.seeking = bool(self._held or self._close)

    @property
    def unclosed(self) -> str:
        """The opening tag of a block that has not ended; empty if there is none."""
        return self._close.replace("/", "", 1)

    def flush(self) -> tuple[str, str]:
        """The text and thinking still held back at the end of the stream."""
        held, self._held = self._held, ""
        return ("", held) if self._close else (self._text(held), "")

    def _text(self, held: str) -> str:
        return held.lstrip() if self._closed else held


def _overlap(text: str, tag: str) -> int:
    """How many characters at the end of `text` may be the start of `tag`."""
    return next((n for n in range(min(len(tag) - 1, len(text)), 0, -1) if text.endswith(tag[:n])), 0)


def split_missing_open(text: str) -> tuple[str, str]:
    r"""Split a whole answer into `(text, thinking)` if the chat template already wrote the opening tag.

    >>> split_missing_open("Let me see.\n</think>\nYes.")
    ('Yes.', 'Let me see.')
    """
    found = _CLOSED.search(text)
    if found is None or any(tag in text for tag in _OPEN) or text.count("```", 0, found.start()) % 2:
        return text, ""
    return text[found.end() :].lstrip(), text[: found.start()].strip()
