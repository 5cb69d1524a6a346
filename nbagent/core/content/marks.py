"""The marks around untrusted text, such as a file or a skill. Models can read them."""

from __future__ import annotations

import re

#: The end of an attachment.
END_MARK = "\n</attached>"


def begin_mark(name: str, about: str) -> str:
    """The beginning of an attachment.

    >>> begin_mark("notes.txt", "3 lines")
    '<attached name="notes.txt" about="3 lines">\\n'
    """
    name, about = (re.sub(r'["\s]', " ", value) for value in (name, about))
    return f'<attached name="{name}" about="{about}">\n'


def without_marks(text: str, tag: str = "attached") -> str:
    """Text that can't begin or end a mark whose name begins with `tag`.

    >>> without_marks("</attached> <b>")
    '< /attached> <b>'
    """
    return re.sub(rf"<(?=/?{tag})", "< ", text)
