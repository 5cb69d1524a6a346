"""Finds the secrets of an HTTP request and removes them from whatever is kept of the exchange.

The name of a variable that could hold it replaces a secret: `$OPENAI_API_KEY`. A value is a secret if it is sent in a
header or query parameter with a telling name, or as the user or password of the address or of the proxy on the way. It
is then searched for everywhere, in the answer too, in all its `spellings`.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import unquote, urlsplit

from nbagent.providers.http.address import proxy_for, without_credentials
from nbagent.providers.http.spellings import SHORTEST_SECRET, may_be_words, spellings_of

_TELLING = re.compile(
    r"authorization|cookie|key|token|secret|passw|credential|signature|(?<![a-z])(?:auth|sig|pwd|jwt)(?![a-z])", re.I
)
#: Telling names of headers that only describe limits and caches.
_HARMLESS = re.compile(r"rate-?limit|idempotency|-limit-|-remaining-|^access-control-", re.I)
#: Headers and query parameters that carry the vendor's own key.
_KEY_PLACES = frozenset({"authorization", "x-api-key", "api-key", "x-goog-api-key", "key", "api_key", "apikey"})
_SCHEME = re.compile(r"([A-Za-z][\w-]*) +(\S+)")
_PARAMETER = re.compile(r"(?<![^&])([^&=]+)=([^&]*)")


class Redactor:
    """Removes the secrets of one request from texts. `variable` is the name that replaces the vendor's own key."""

    def __init__(self, url: str, headers: Mapping[str, str], key: str | None, variable: str) -> None:
        self._variable = variable
        #: The names that replace secrets.
        self.names: set[str] = set()
        self._names: dict[str, str] = {}
        self._add(key, variable)
        for name, value in headers.items():
            if is_telling(name):
                self._add_header(name, value)
        parts = urlsplit(url)
        for part in (parts.username, parts.password):
            self._add(unquote(part or ""), "URL_PASSWORD")
        for value in without_credentials(proxy_for(url) or "")[1].values():
            self._add_header("Proxy-Authorization", value)
        for name, value in _PARAMETER.findall(parts.query):
            if is_telling(name):
                self._add(unquote(value), self._name_for(name))

    @property
    def secrets(self) -> dict[str, str]:
        """Each secret that is long enough to be searched for, and its name; long ones first."""
        return {secret: self._names[secret] for secret in sorted(self._names, key=len, reverse=True)}

    def text(self, text: str, mask: str = "") -> str:
        """The text with each secret replaced by `mask`, or by its name."""
        for secret, name in self.secrets.items():
            text = mask_secret(text, secret, mask or f"${name}")
        return text

    def body(self, text: str) -> str:
        """What was said in a request or answer: a key that may be a word of it stays."""
        for secret, name in self.secrets.items():
            if not may_be_words(secret):
                text = mask_secret(text, secret, f"${name}")
        return text

    def url(self, url: str) -> str:
        """The URL without user and password; names replace the values of telling parameters."""
        parts = urlsplit(url)

        def named(found: re.Match[str]) -> str:
            return f"{found[1]}=${self._name_for(found[1])}" if is_telling(found[1]) else found[0]

        host = parts.netloc.rpartition("@")[2]
        return self.text(parts._replace(netloc=host, query=_PARAMETER.sub(named, parts.query)).geturl())

    def message(self, message: str) -> str:
        """An error message, which may name an address, or a proxy's."""
        return self.text(re.sub(r"//[^/@\s]*@", "//", message))

    def headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        """The headers; telling ones keep only their name and scheme."""
        return {
            name: self._hidden(name, value) if is_telling(name) else self.text(value) for name, value in headers.items()
        }

    def _hidden(self, name: str, value: str) -> str:
        scheme = _SCHEME.fullmatch(value) if "authorization" in name.lower() else None
        return f"{scheme[1] + ' ' if scheme else ''}${self._name_for(name)}"

    def _name_for(self, place: str) -> str:
        return self._variable if place.lower() in _KEY_PLACES else re.sub(r"\W", "_", place).upper()

    def _add(self, secret: str | None, name: str) -> None:
        if secret:
            self.names.add(name)
        if secret and len(secret) >= SHORTEST_SECRET:
            self._names.setdefault(secret, name)

    def _add_header(self, place: str, value: str) -> None:
        name = self._name_for(place)
        values = [value]
        if scheme := _SCHEME.fullmatch(value):
            values = [scheme[2], *(_decoded(scheme[2]).split(":", 1) if scheme[1].lower() == "basic" else ())]
        if "cookie" in place.lower():
            values = re.findall(r"=([^;]*)", value)
        for secret in values:
            self._add(secret, name)


def mask_secret(text: str, secret: str, mask: str = "***") -> str:
    """The text with a secret masked, also its beginning at the end of a text that was cut off.

    >>> mask_secret("key=sk%2D12345678 or sk-1234567", "sk-12345678")
    'key=*** or ***'
    """
    spellings = spellings_of(secret)
    return spellings.cut(spellings.replaced(text, mask), mask)


def without_secrets(text: str, request: Any) -> str:
    """An answer to a request of httpx or httpx2, without the secrets that the request sent."""
    return text if request is None else Redactor(str(request.url), request.headers, None, "").text(text, "***")


@lru_cache(maxsize=256)
def is_telling(name: str) -> bool:
    """Whether a header or query parameter of this name holds a secret.

    >>> [is_telling(name) for name in ("X-Corp-Token", "set-cookie", "x-ratelimit-limit-tokens")]
    [True, True, False]
    """
    return bool(_TELLING.search(name)) and not _HARMLESS.search(name)


def _decoded(text: str) -> str:
    try:
        return base64.b64decode(text).decode("utf-8", "replace")
    except (binascii.Error, ValueError):
        return ""
