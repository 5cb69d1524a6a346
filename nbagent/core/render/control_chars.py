"""Text that shows what it is: nothing in it moves a cursor, colours a terminal or turns the reading order around.

What models and tools say may hold control characters. In a terminal they can overwrite what was said before, and the
bidirectional ones let `photo\\u202egnp.exe` read as a picture's name (https://trojansource.codes).
"""

from __future__ import annotations

import re

#: Colours, cursor movements, titles and links of terminals: whole sequences, which say nothing elsewhere.
_TERMINAL = re.compile(r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)")
_HIDDEN = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]|\r(?!\n)")


def show_control_chars(text: str) -> str:
    """The text without terminal sequences; other control characters as signs that are seen.

    >>> show_control_chars("\\x1b[31mred\\x1b[0m, user\\u202excod.exe\\x08")
    'red, user⟨U+202E⟩xcod.exe␈'
    """
    return _HIDDEN.sub(_sign, _TERMINAL.sub("", text)) if _HIDDEN.search(text) else text


def _sign(found: re.Match[str]) -> str:
    code = ord(found[0])
    if found[0] == "\r":
        return "\n"
    return chr(0x2400 + code) if code < 0x20 else f"⟨U+{code:04X}⟩"


def escape_control_chars(json_text: str) -> str:
    """JSON text with the same characters as `\\uXXXX`: its value stays what it was.

    >>> escape_control_chars('{"name": "photo\\u202egnp.exe"}')
    '{"name": "photo\\\\u202egnp.exe"}'
    """
    return _HIDDEN.sub(lambda found: f"\\u{ord(found[0]):04x}", json_text)
