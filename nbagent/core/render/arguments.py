"""A call's arguments as text, for the person who decides whether to approve the call."""

from __future__ import annotations

import re
from typing import Any

from nbagent.core.render.control_chars import show_all_chars
from nbagent.core.render.markdown import readable_json, readable_name

_BLANK_LINES = re.compile(r"(?<=\n)(?:(?:[^\S\n]|\u2800)*\n){3,}")
_SPACES = re.compile(r"(?:[^\S\n]|\u2800){40,}")


def arguments_text(arguments: dict[str, Any]) -> str:
    """Return all arguments as text, with hidden characters made visible.

    Text that JSON would escape, such as code, is shown unchanged. Only long white space, which would push the rest out
    of view, is replaced.
    """
    shown = [
        f"{readable_name(name)} = {readable_json(value)}"
        if _is_plain(value)
        else f"{readable_name(name)} =\n{folded(value)}"
        for name, value in arguments.items()
    ]
    return "\n".join(shown)


def folded(text: str) -> str:
    """Replace each long run of blank lines or spaces with a note.

    >>> folded("a = 1" + "\\n" * 60 + "b = 2")
    'a = 1\\n[59 blank lines]\\nb = 2'
    """
    text = _BLANK_LINES.sub(lambda found: f"[{found[0].count(chr(10))} blank lines]\n", show_all_chars(text))
    return _SPACES.sub(lambda found: f" [{len(found[0])} spaces] ", text)


def _is_plain(value: Any) -> bool:
    return not isinstance(value, str) or "\\" not in readable_json(value)
