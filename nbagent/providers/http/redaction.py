"""Removes secrets from saved data: HTTP records, errors, recordings, and conversations kept in notebooks.

A secret is found by its exact text, plain or escaped as in JSON and URLs, or by the name of its header or query
parameter. Model text and tool arguments are changed only in the saved copy.
"""

from __future__ import annotations

import json
import os
import re
from base64 import b64decode
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

from nbagent.providers.http.address import without_credentials

_SECRET_NAMES = re.compile(
    r"authorization|cookie|key|token|secret|passw|credential|signature|(?<![a-z])(?:auth|sig|pwd|jwt)(?![a-z])", re.I
)
#: Similar names that describe limits, caches and settings.
_HARMLESS = re.compile(r"rate-?limit|idempotency|-limit-|-remaining-|^access-control-|max_|tokenizer|keyboard", re.I)
#: Headers and query parameters that carry the provider's own key.
_KEY_PLACES = frozenset({"authorization", "x-api-key", "api-key", "x-goog-api-key", "key", "api_key", "apikey"})
_SCHEME = re.compile(r"([A-Za-z][\w-]*) +(\S+)")
_PARAMETER = re.compile(r"(?<![^&])([^&=]+)=([^&]*)")
#: Local servers accept any key, so people pass words such as "ollama" and "not-needed", which texts may contain.
_WORDS = re.compile(r".{0,7}|(?=.{0,19}\Z)[A-Za-z]+(?:[-_ ][A-Za-z]+)*", re.DOTALL)


class Redactor:
    """Replaces secrets with `$NAME`. The secrets are `keys`, and those in environment variables and in a request's
    `url` and `headers`.

    `variable` is the name that replaces a key. A key that is an ordinary word, or shorter than 8 characters, is not
    removed from text.

    >>> Redactor(["sk-12345678"]).text("wrong key: sk-12345678")
    'wrong key: $API_KEY'
    """

    def __init__(
        self,
        keys: Iterable[str] = (),
        variable: str = "API_KEY",
        url: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._variable = variable
        sent = [*(headers or {}).items(), *without_credentials(url)[1].items(), *parse_qsl(urlsplit(url).query)]
        found = {secret: self._name_of(place) for place, value in sent for secret in secrets_in(place, value)}
        found |= dict.fromkeys(keys, variable) | _environment_secrets()
        named = {secret: name for secret, name in found.items() if not _WORDS.fullmatch(secret)}
        forms = {form: name for secret, name in named.items() for form in forms_of(secret)}
        #: Each secret and the name that replaces it, longest secrets first.
        self.names = dict(sorted(forms.items(), key=lambda form: -len(form[0])))
        #: The names that replaced a secret so far.
        self.used: set[str] = set()

    def text(self, text: str) -> str:
        """The text without secrets."""
        for secret, name in self.names.items():
            if secret in text:
                text = text.replace(secret, self._named(name))
        return text

    def data(self, data: Any) -> Any:
        """JSON data without secrets. A number is replaced only if the whole number is a secret."""
        if isinstance(data, str):
            return self.text(data)
        if isinstance(data, dict):
            return {self.data(key): self.data(value) for key, value in data.items()}
        if isinstance(data, list | tuple):
            return [self.data(value) for value in data]
        is_number = isinstance(data, int | float) and not isinstance(data, bool)
        return self._named(self.names[str(data)]) if is_number and str(data) in self.names else data

    def headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        """The headers without secrets. A secret header keeps only its name and scheme."""
        return {
            name: self._hidden(name, value) if is_secret_name(name) else self.text(value)
            for name, value in headers.items()
        }

    def url(self, url: str) -> str:
        """The URL without user name and password, and with names in place of the values of secret parameters."""
        parts = urlsplit(url)

        def named(found: re.Match[str]) -> str:
            return f"{found[1]}={self._named(self._name_of(found[1]))}" if is_secret_name(found[1]) else found[0]

        host = parts.netloc.rpartition("@")[2]
        return self.text(parts._replace(netloc=host, query=_PARAMETER.sub(named, parts.query)).geturl())

    def _hidden(self, place: str, value: str) -> str:
        scheme = _SCHEME.fullmatch(value) if "authorization" in place.lower() else None
        return f"{scheme[1] + ' ' if scheme else ''}{self._named(self._name_of(place))}"

    def _name_of(self, place: str) -> str:
        return self._variable if place.lower() in _KEY_PLACES else re.sub(r"\W", "_", place).upper()

    def _named(self, name: str) -> str:
        self.used.add(name)
        return f"${name}"


def _environment_secrets() -> dict[str, str]:
    """Environment variables named like secrets, as names by value.

    The path of an existing file, as in SSH_AUTH_SOCK, is not a secret.
    """
    return {
        value: name
        for name, value in os.environ.items()
        if is_secret_name(name) and not (os.path.isabs(value) and os.path.exists(value))
    }


def forms_of(secret: str) -> set[str]:
    """A secret in plain form, and escaped as in JSON and URLs.

    >>> sorted(forms_of('a/"b"'))
    ['a%2F%22b%22', 'a/"b"', 'a/\\\\"b\\\\"']
    """
    return {secret, json.dumps(secret, ensure_ascii=False)[1:-1], quote(secret, safe="")}


@lru_cache(maxsize=256)
def is_secret_name(name: str) -> bool:
    """Whether a header, query parameter or environment variable with this name is a secret.

    >>> [is_secret_name(name) for name in ("X-Corp-Token", "set-cookie", "x-ratelimit-limit-tokens")]
    [True, True, False]
    """
    return bool(_SECRET_NAMES.search(name)) and not _HARMLESS.search(name)


def secrets_in(place: str, value: str) -> list[str]:
    """The secret parts of a header's or query parameter's value: the text after a scheme, and a login's password.

    >>> secrets_in("Authorization", "Basic YWRhOnNlY3JldC1wYXNzOQ==")
    ['YWRhOnNlY3JldC1wYXNzOQ==', 'secret-pass9']
    """
    scheme, _, rest = value.partition(" ")
    parts = re.findall(r"=([^;]*)", value) if "cookie" in place.lower() else [rest or value]
    if scheme.lower() == "basic":
        with suppress(ValueError):  # no login
            parts.append(b64decode(rest).decode("utf-8", "replace").partition(":")[2])
    return [part for part in parts if is_secret_name(place) and not _WORDS.fullmatch(part)]
