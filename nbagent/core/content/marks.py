"""The marks around what a question carries, such as a file, in its text. Models know how to read them."""

from __future__ import annotations

import re

#: What ends an attachment.
END_MARK = "\n</attached>"
_LIKE_A_MARK = re.compile(r"<(?=/?attached\b)")


def begin_mark(name: str, about: str) -> str:
    """What begins one.

    >>> begin_mark("notes.txt", "3 lines")
    '<attached name="notes.txt" about="3 lines">\\n'
    """
    name, about = (re.sub(r'["\s]', " ", value) for value in (name, about))
    return f'<attached name="{name}" about="{about}">\n'


def without_marks(text: str) -> str:
    """Text that can't begin or end an attachment."""
    return _LIKE_A_MARK.sub("< ", text)
