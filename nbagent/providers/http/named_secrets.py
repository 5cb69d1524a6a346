"""Finds secrets in text that nobody marked: by the name of a value, such as `password="…"`, or by its form.

The text may be a `repr`, JSON, source code or somebody's notes, where `password="…"`, `{"api_key": "…"}` and
`token: str = "…"` look alike.
"""

from __future__ import annotations

import re

from nbagent.providers.http.redaction import environment_secrets
from nbagent.text import without_keys

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


def is_secret(name: str, value: str) -> bool:
    """Whether a text of this name is a secret.

    >>> is_secret("db_password", "x"), is_secret("token", "the"), is_secret("token", "a8Xk29sLq0pZ")
    (True, False, True)
    """
    return bool(_SECRET.search(name) or (_PERHAPS.search(name) and _RANDOM.fullmatch(value)))


def masked(text: str, mask: str) -> str:
    """The text with a mask for each secret in it: by its name, by its form, or because the environment holds it.

    >>> masked("password='hunter2', host='db'", "***")
    "password='***', host='db'"
    """

    def masked_pair(found: re.Match[str]) -> str:
        quote = found["quote"] or ""
        value = found["value"].partition(quote)[2][:-1] if quote else found["value"]
        if (not quote and value.replace(".", "", 1).isdigit()) or value in _TYPES_AND_EMPTY:
            return found[0]  # a number of tokens, say, or a type
        return f"{found['name']}{found['sign']}{quote}{mask}{quote}" if is_secret(found["name"], value) else found[0]

    for value in environment_secrets():
        text = text.replace(value, mask)
    return _PAIR.sub(masked_pair, without_keys(text, mask))
