"""Control characters and invisible ones in text from models and tools: made visible, or escaped in JSON.

In a terminal they can overwrite earlier output. Bidirectional ones can reorder what people read, so that
`photo\\u202egnp.exe` looks like the name of a picture (https://trojansource.codes). Invisible ones can hide words from
people that a model reads, or make one name look like another.
"""

from __future__ import annotations

import json
import logging
import re

#: Whole terminal sequences: colours, cursor movements, titles, links. Outside of a terminal they mean nothing.
_TERMINAL = re.compile(r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)")
#: Runs of control characters, of those that Unicode calls "default ignorable", and of separators and marks without a
#: shape. The first half of a Windows line end is none of them.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff]+(?<!\r(?=\n))"
)
_EMOJI = "[©®‼⁉™ℹ\u2190-\u21ff\u2300-\u27bf\u2934\u2935\u2b00-\u2bff〰〽㊗㊙\U0001f000-\U0001faff]"
#: Runs that people write: a joiner between letters, as in Persian and Hindi, or emojis; the coloured or plain form of
#: an emoji or key; the form of a Mongolian letter; the flags of England, Scotland and Wales.
_NEEDED = re.compile(
    "(?<=[^\\0-\x7f])[\u200c\u200d](?=[^\\0-\x7f])"
    f"|(?<={_EMOJI})(?:\ufe0f\u200d(?={_EMOJI})|[\ufe0e\ufe0f])"
    "|(?<=[0-9#*])\ufe0f(?=\u20e3)"
    "|(?<=[\u1820-\u18aa])[\u180b-\u180f]"
    "|(?<=\U0001f3f4)\U000e0067\U000e0062(?:\U000e0065\U000e006e\U000e0067|\U000e0073\U000e0063\U000e0074"
    "|\U000e0077\U000e006c\U000e0073)\U000e007f"
)


def show_control_chars(text: str) -> str:
    """Remove terminal sequences, and replace other control characters by visible symbols.

    >>> show_control_chars("\\x1b[31mred\\x1b[0m, user\\u202excod.exe\\x08")
    'red, user⟨U+202E⟩xcod.exe␈'
    """
    return show_all_chars(_TERMINAL.sub("", text)) if _HIDDEN.search(text) else text


def show_all_chars(text: str) -> str:
    """The same for text that somebody has to approve: a terminal sequence could hide part of a command.

    >>> show_all_chars("ls\\x1b]; rm -rf ~\\x07")
    'ls␛]; rm -rf ~␇'
    """
    return _HIDDEN.sub(lambda run: run[0] if _is_needed(run) else "".join(map(_symbol, run[0])), text)


def _symbol(char: str) -> str:
    if char == "\r":
        return "\n"
    return chr(0x2400 + ord(char)) if char < " " else f"⟨U+{ord(char):04X}⟩"


def _is_needed(run: re.Match[str]) -> bool:
    found = _NEEDED.match(run.string, run.start())
    return found is not None and found.end() == run.end()


def escape_control_chars(json_text: str) -> str:
    """Write the same characters in JSON text as `\\uXXXX`, which keeps its value.

    >>> escape_control_chars('{"name": "photo\\u202egnp.exe"}')
    '{"name": "photo\\\\u202egnp.exe"}'
    """
    return _HIDDEN.sub(lambda run: run[0] if _is_needed(run) else json.dumps(run[0])[1:-1], json_text)


def readable_record(record: logging.LogRecord) -> bool:
    """A logging filter: what models and tools said reaches the log without control characters, too."""
    record.msg, record.args = show_control_chars(record.getMessage()), None
    return True
