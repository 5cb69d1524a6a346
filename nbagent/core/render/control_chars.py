"""Makes control characters and invisible characters in text from models and tools visible, or escapes them in JSON.

In a terminal, control characters can overwrite earlier output. Bidirectional characters can reorder text, so
`photo\\u202egnp.exe` looks like the name of a picture (https://trojansource.codes). Invisible characters can hide words
that a model reads, or make two different names look the same.
"""

from __future__ import annotations

import json
import logging
import re

#: Whole terminal sequences: colours, cursor movements, titles, links. Outside a terminal they mean nothing.
_TERMINAL = re.compile(r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)")
#: Control and format characters (Unicode's Cc, Cf, Zl and Zp), except tabs, line ends, and the joiners that Persian,
#: Hindi and emojis need.
_HIDDEN = re.compile(
    "\r(?!\n)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\U000e0000-\U000e007f]"
)


def show_control_chars(text: str) -> str:
    """Remove terminal escape sequences, and replace other control characters with visible symbols.

    >>> show_control_chars("\\x1b[31mred\\x1b[0m, user\\u202excod.exe\\x08")
    'red, user⟨U+202E⟩xcod.exe␈'
    """
    return show_all_chars(_TERMINAL.sub("", text)) if _HIDDEN.search(text) else text


def show_all_chars(text: str) -> str:
    """Replace all control characters with visible symbols. An escape sequence could hide part of a command to approve.

    >>> show_all_chars("ls\\x1b]; rm -rf ~\\x07")
    'ls␛]; rm -rf ~␇'
    """
    return _HIDDEN.sub(lambda found: _symbol(found[0]), text)


def _symbol(char: str) -> str:
    if char == "\r":
        return "\n"
    return chr(0x2400 + ord(char)) if char < " " else f"⟨U+{ord(char):04X}⟩"


def escape_control_chars(json_text: str) -> str:
    """Escape control characters and invisible characters in JSON text as `\\uXXXX`. The JSON value stays the same.

    >>> escape_control_chars('{"name": "photo\\u202egnp.exe"}')
    '{"name": "photo\\\\u202egnp.exe"}'
    """
    return _HIDDEN.sub(lambda found: json.dumps(found[0])[1:-1], json_text)


def readable_record(record: logging.LogRecord) -> bool:
    """A logging filter that keeps control characters from models and tools out of the log."""
    record.msg, record.args = show_control_chars(record.getMessage()), None
    return True
