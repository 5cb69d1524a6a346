"""`<think>…</think>` in a text stream: local servers without a reasoning parser, and some vendors, send thinking so.

An opening tag counts only at the start of an answer, or right after an earlier block, so that an answer that talks
about such tags stays as it is. Tags may be cut anywhere between two pieces.
"""

from __future__ import annotations

_OPEN = ("<think>", "<thinking>", "<mm:think>")
_LONGEST = max(map(len, _OPEN))


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
        #: A block has ended: the space between it and the text belongs to neither.
        self._closed = False
        #: False once ordinary text has begun: from then on everything is text.
        self.seeking = True

    def feed(self, piece: str) -> tuple[str, str]:
        """What `piece` (with what was held back before) adds to the text and to the thinking."""
        if not self.seeking:
            return piece, ""
        held, self._held = self._held + piece, ""
        thinking = ""
        while self.seeking:
            if self._close:
                part, held, ended = self._inside(held)
                thinking += part
                if not ended:
                    return "", thinking
            elif not self._opens(held):
                break
            else:
                held = self._after_tag(held)
                if not self._close:
                    return "", thinking
        return self._text(held), thinking

    def flush(self) -> tuple[str, str]:
        """What is still held back at the end of the stream."""
        held, self._held = self._held, ""
        return ("", held) if self._close else (self._text(held), "")

    def _text(self, held: str) -> str:
        """What is held, as text."""
        return held.lstrip() if self._closed else held

    def _inside(self, held: str) -> tuple[str, str, bool]:
        """Thinking up to the closing tag -> (thinking, rest, ended)."""
        at = held.find(self._close)
        if at >= 0:
            rest = held[at + len(self._close) :]
            self._close, self._closed = "", True
            return held[:at], rest, True
        keep = _overlap(held, self._close)
        self._held = held[len(held) - keep :]
        return held[: len(held) - keep], "", False

    def _opens(self, held: str) -> bool:
        """Whether `held` begins, or may still begin, with an opening tag. If not, text has begun."""
        start = held.lstrip()
        self.seeking = any(tag.startswith(start[:_LONGEST]) or start.startswith(tag) for tag in _OPEN)
        return self.seeking

    def _after_tag(self, held: str) -> str:
        """The text after the opening tag; all is held back while the tag is incomplete."""
        start = held.lstrip()
        for tag in _OPEN:
            if start.startswith(tag):
                self._close = f"</{tag[1:]}"
                return start[len(tag) :].lstrip("\r\n")
        self._held = held
        return ""


def _overlap(text: str, tag: str) -> int:
    """How many characters at the end of `text` may begin `tag`."""
    return next((n for n in range(min(len(tag) - 1, len(text)), 0, -1) if text.endswith(tag[:n])), 0)


def split_missing_open(text: str) -> tuple[str, str]:
    r"""`(text, thinking)` of a whole answer whose opening tag was lost (the chat template had written it).

    >>> split_missing_open("Let me see.</think>\nYes.")
    ('Yes.', 'Let me see.')
    """
    for tag in _OPEN:
        thinking, found, rest = text.partition(f"</{tag[1:]}\n")
        if found and tag not in text:
            return rest.lstrip(), thinking.strip()
    return text, ""
