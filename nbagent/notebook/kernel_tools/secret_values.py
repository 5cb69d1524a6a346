"""Masks secrets in what the kernel tools tell a model: by the name of a value, at any depth, or by its form.

The tools read variables that nobody marked for a model. What they show is text, such as a `repr`, JSON or source code:
so secrets are searched for in the text, where `password="…"`, `{"api_key": "…"}` and `token: str = "…"` look alike.
"""

from __future__ import annotations

import os
import re
from typing import Any

from nbagent.core.messages import Content
from nbagent.functions.formatting import truncate_result
from nbagent.providers.http.redaction import is_telling
from nbagent.providers.http.spellings import SHORTEST_SECRET
from nbagent.text import without_keys

#: Longer results are shortened before secrets are searched for.
MAX_CHARS = 20_000
#: Stands for a secret.
HIDDEN = "(hidden)"
#: Whatever has such a name is a secret.
_SECRET = re.compile(
    r"passw|passphrase|pwd|secret|credential|authorization|cookie|jwt|bearer|dsn$|connection_?str"
    r"|(?:api|access|private|account|encryption|signing|auth|service|master|shared)[-_. ]?(?:key|token)",
    re.IGNORECASE,
)
#: A join key, a word of a text and a page's session have such names, too: only what looks random is a secret.
_PERHAPS = re.compile(r"key|token|auth|session|signature|(?<![a-z])(?:sig|pat|pin|url|uri)(?![a-z])", re.IGNORECASE)
_RANDOM = re.compile(r"(?=\S*\d)(?=\S*[A-Za-z])[^\s/:]{12,}|[^\s/:]{24,}")
#: `name=value`, `"name": value`, `name: type = value`; the value in quotes, or a word.
_PAIR = re.compile(
    r"""(?P<name>(?<![\w.-])[\w.-]++)(?P<sign>["']?\s{0,4}(?::[^=\n,()"']{0,80}=|=>|[:=])\s{0,4})"""
    r"""(?P<value>[bBfFrRuU]{0,2}(?P<quote>["'])(?:\\.|(?!(?P=quote))[^\\\n]){0,10000}(?P=quote)|[^\s,;&)}\]"']{1,10000})"""
)
#: What stands after a name in a signature, or where there is no value.
_TYPES_AND_EMPTY = ("None", "null", "True", "False", "str", "…", "")


def without_secrets(content: Content, max_chars: int = MAX_CHARS) -> Content:
    """A result for a model with `(hidden)` in place of each secret, shortened first. Images stay as they are.

    >>> without_secrets("Settings(user='ann', password='hunter2', url='db://ann:hunter2@host/x')")
    "Settings(user='ann', password='(hidden)', url='db://(hidden)@host/x')"
    """
    content = truncate_result(content, max_chars)[0]
    if not isinstance(content, str):
        return [{**part, "text": _masked(part["text"])} if part.get("type") == "text" else part for part in content]
    return _masked(content)


def secret_columns(frame: Any) -> list[Any]:
    """The columns of a data frame whose names say that they hold secrets."""
    return [name for name in frame.columns if is_secret(str(name), "")]


def is_secret(name: str, value: str) -> bool:
    """Whether a text of this name is a secret.

    >>> is_secret("db_password", "x"), is_secret("token", "the"), is_secret("token", "a8Xk29sLq0pZ")
    (True, False, True)
    """
    return bool(_SECRET.search(name) or (_PERHAPS.search(name) and _RANDOM.fullmatch(value)))


def _masked(text: str) -> str:
    for value in {value for name, value in os.environ.items() if is_telling(name) and len(value) >= SHORTEST_SECRET}:
        if not os.path.exists(value):  # such as SSH_AUTH_SOCK
            text = text.replace(value, HIDDEN)
    return _PAIR.sub(_masked_pair, without_keys(text, HIDDEN))


def _masked_pair(found: re.Match[str]) -> str:
    quote = found["quote"] or ""
    value = found["value"].partition(quote)[2][:-1] if quote else found["value"]
    if (not quote and value.replace(".", "", 1).isdigit()) or value in (
        "None",
        "null",
        "True",
        "False",
        "str",
        "…",
        "",
    ):
        return found[0]  # a number of tokens, say, or a type
    return f"{found['name']}{found['sign']}{quote}{HIDDEN}{quote}" if is_secret(found["name"], value) else found[0]
