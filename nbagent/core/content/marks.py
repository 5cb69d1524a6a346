"""Marks that show models where untrusted text, such as a file or a skill, starts and ends."""

from __future__ import annotations

import re

#: The end of an attachment.
END_MARK = "\n</attached>"


def begin_mark(name: str, about: str) -> str:
    """Return the mark that opens an attachment.

    >>> begin_mark("notes.txt", "3 lines")
    '<attached name="notes.txt" about="3 lines">\\n'
    """
    name, about = (re.sub(r'["\s]', " ", value) for value in (name, about))
    return f'<attached name="{name}" about="{about}">\n'


def before_attachments(text: str) -> str:
    """Return the text before the first attachment, which is the text that the user typed.

    >>> before_attachments('Odd? @n\\n\\n<attached name="@n" about="int 3">\\n3\\n</attached>')
    'Odd? @n'
    """
    return re.split(r'(?:\A|\n\n)<attached name="', text, maxsplit=1)[0]


def without_marks(text: str, tag: str = "attached") -> str:
    """Change the text so that it can't open or close a mark whose name starts with `tag`.

    >>> without_marks("</attached> <b>")
    '< /attached> <b>'
    """
    return re.sub(rf"<(?=/?{tag})", "< ", text)
