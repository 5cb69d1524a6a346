"""Helpers for text that people and models read: they shorten text, suggest names and mask keys."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from itertools import takewhile
from typing import Any

#: Keys of well-known services, tokens, private keys, and passwords in addresses.
_KEY = re.compile(
    r"\bsk-[\w+/.-]{8,}|\b(?:sk|pk|rk|gsk|xai)[-_][\w-]{16,}|\b(?:AKIA|ASIA)[0-9A-Z]{16}\b|\bgh[pousr]_\w{20,}|\bgithub_pat_\w{20,}|\bglpat-[\w-]{16,}"
    r"|\bxox[a-z]-[\w-]{10,}|\bAIza[\w-]{30,}|\b[0-9a-f]{32}\.\w{16}\b|\bhf_\w{20,}|\bnpm_\w{20,}|\bpypi-[\w-]{20,}|\bSG\.[\w-]{16,}\.[\w-]{16,}"
    r"|(?<![\w-])eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]{0,4096}|(?<=Bearer )[\w.~+/-]{8,}|(?<=Basic )[\w+/=-]{8,}"
    r"|-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----[^-]{0,20000}-----END [A-Z ]{0,30}PRIVATE KEY-----"
    r"|(?<=://)(?!user:password@)[^\s/@:]{0,200}:[^\s/@]{1,200}(?=@)"  # our own messages write `user:password`
)

#: `password="…"`, `db_token: str = "…"`, `{"api_key": "…"}` and `API_KEY=…`, if the value looks random.
_NAMED_KEY = re.compile(
    r"""((?<![a-z])(?:password|passwd|passphrase|pwd|secret|token|(?:api|access|secret|private)[-_]?key)["']?"""
    r"""(?:\s{0,4}:\s{0,4}str)?\s{0,4}[:=]\s{0,4}(?:str\s)?["']?)(?![/.~])(?=\S{0,40}\d)(?=\S{0,40}[a-z])[^\s:"',;&()}\]]{12,}""",
    re.IGNORECASE,
)


def shortened(text: str, limit: int) -> str:
    """Return at most `limit` (1 or more) characters of text. An ellipsis replaces the rest.

    >>> shortened("penguins", 5)
    'peng…'
    """
    return text if len(text) <= limit else text[: max(limit - 1, 0)].rstrip() + "…"


def beginning(value: Any, limit: int) -> Any:
    """Return the value, or enough of a large text or container for a `repr` of `limit` characters.

    The `repr` of a gigabyte-sized container would block the process.

    >>> beginning({"a": [0] * 1_000_000}, 6)
    {'a': [0, 0]}
    """
    left = limit

    def part(value: Any) -> Any:
        nonlocal left
        left -= 1
        kind = type(value)
        if kind in (str, bytes):
            text = value[: max(left, 0)]
            left -= len(text)
            return text
        if kind not in (list, tuple, set, frozenset, dict):
            return value
        items = takewhile(lambda _: left > 0, value.items() if kind is dict else value)
        if kind is dict:
            return {part(key): part(item) for key, item in items}
        return kind([part(item) for item in items])

    return part(value)


def did_you_mean(word: str, known: Iterable[str], most: int = 1) -> str:
    """Return a hint for a message about an unknown name, or "" if no known name is close.

    >>> did_you_mean("temprature", ["temperature", "top_p"])
    '; did you mean temperature?'
    """
    spellings = {name.lower(): name for name in known}
    close = [spellings[name] for name in get_close_matches(word.lower(), spellings, n=most)]
    return f"; did you mean {' or '.join(close)}?" if close else ""


def without_keys(text: str, mask: str = "***") -> str:
    """Mask keys, tokens and passwords in text, and random-looking values after names such as `api_key`.

    >>> without_keys("expected a number, got 'sk-proj-0123456789'")
    "expected a number, got '***'"
    >>> without_keys("DB_PASSWORD=postgres db_password='a8Xk29sLq0pZ' primary_key: a8Xk29sLq0pZ")
    "DB_PASSWORD=postgres db_password='***' primary_key: a8Xk29sLq0pZ"
    """
    return _NAMED_KEY.sub(lambda found: f"{found[1]}{mask}", _KEY.sub(mask, text))
