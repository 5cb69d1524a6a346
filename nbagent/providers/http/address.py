"""Checks the addresses of servers and proxies, and shows them without passwords."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit, urlunsplit
from urllib.request import getproxies, proxy_bypass

from nbagent.errors import ConfigurationError

if TYPE_CHECKING:
    from pydantic import SecretStr


@dataclass(frozen=True)
class Target:
    """The server that a request is sent to. The key is None if the server needs none."""

    base_url: str
    path: str
    key: SecretStr | None = None
    timeout: float = 60.0
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    #: Headers of this one request, without secrets, since SDKs log them.
    more_headers: Mapping[str, str] = field(default_factory=dict)
    #: `redactor(url, headers)` returns the redactor of a request's secrets for the HTTP log.
    redactor: Any = None


def checked_address(base_url: str) -> str:
    """A base URL without a trailing slash. Raises `ConfigurationError` unless it is an http or https address.

    >>> checked_address("http://localhost:8000/v1/")
    'http://localhost:8000/v1'
    """
    try:
        parts = urlsplit(base_url)
        fits = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # an invalid port, an unclosed bracket
        fits = False
    if base_url and (not fits or re.search(r"\s", base_url)):
        raise ConfigurationError(
            "base_url: expected the address of a server, such as 'http://localhost:8000/v1' or "
            f"'https://api.example.com/v1', got {without_password(base_url)!r}."
        )
    return base_url.rstrip("/")


def check_extensible(base_url: str) -> None:
    """Raise `ConfigurationError` if no path can be appended. The message does not show a query, which may contain a
    key.
    """
    if "?" in base_url or "#" in base_url:
        raise ConfigurationError(
            "base_url: expected an address without '?' and '#', since request paths are appended to it. "
            "Pass a key as api_key, and anything else as headers."
        )


def without_credentials(base_url: str) -> tuple[str, dict[str, str]]:
    """Move the user name and password from a base URL to a header, because HTTP libraries would log the URL.

    >>> without_credentials("http://ada:s3cret@localhost:8000/v1")
    ('http://localhost:8000/v1', {'Authorization': 'Basic YWRhOnMzY3JldA=='})
    """
    parts = urlsplit(base_url)
    credentials, _, host = parts.netloc.rpartition("@")
    if not credentials:
        return base_url, {}
    encoded = b64encode(unquote(credentials).encode()).decode()
    return urlunsplit(parts._replace(netloc=host)), {"Authorization": f"Basic {encoded}"}


def without_password(url: str) -> str:
    """An address for display, without user name or password.

    >>> without_password("http://ada:p@ss@proxy.example:3128")
    'http://proxy.example:3128'
    """
    return re.sub(r"^([a-z0-9+.-]+://)?.*@", r"\1", url, flags=re.IGNORECASE | re.DOTALL)


def proxy_for(base_url: str) -> str | None:
    """The proxy for a server, from the environment. None for a loopback address."""
    parts = urlsplit(base_url)
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if not proxy or is_loopback(parts.hostname or "") or proxy_bypass(parts.netloc.rpartition("@")[2]):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def is_loopback(host: str) -> bool:
    """Whether a host is this machine."""
    try:
        address = ip_address(host)
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
    return address.is_loopback or address.is_unspecified
