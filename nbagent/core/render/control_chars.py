"""Control characters in text from models and tools: made visible, or escaped in JSON.

In a terminal they can overwrite earlier output. Bidirectional ones can reorder what people read, so that
`photo\\u202egnp.exe` looks like the name of a picture (https://trojansource.codes).
"""

from __future__ import annotations

import re

#: Whole terminal sequences: colours, cursor movements, titles, links. Outside of a terminal they mean nothing.
_TERMINAL = re.compile(r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)")
_HIDDEN = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]|\r(?!\n)")


def show_control_chars(text: str) -> str:
    """Remove terminal sequences, and replace other control characters by visible symbols.

    >>> show_control_chars("\\x1b[31mred\\x1b[0m, user\\u202excod.exe\\x08")
    'red, user⟨U+202E⟩xcod.exe␈'
    """
    return _HIDDEN.sub(_symbol, _TERMINAL.sub("", text)) if _HIDDEN.search(text) else text


def _symbol(found: re.Match[str]) -> str:
    code = ord(found[0])
    if found[0] == "\r":
        return "\n"
    return chr(0x2400 + code) if code < 0x20 else f"⟨U+{code:04X}⟩"


def escape_control_chars(json_text: str) -> str:
    """Write the same characters in JSON text as `\\uXXXX`, which keeps its value.

    >>> escape_control_chars('{"name": "photo\\u202egnp.exe"}')
    '{"name": "photo\\\\u202egnp.exe"}'
    """
    return _HIDDEN.sub(lambda found: f"\\u{ord(found[0]):04x}", json_text)
