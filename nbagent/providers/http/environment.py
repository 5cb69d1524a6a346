"""The way to a server: its address, and what the environment says of a proxy and of the certificates to trust.

- HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, NO_PROXY (also in lower case, and the settings of Windows and macOS). NO_PROXY
  holds names, which stand for their subdomains too, addresses, networks such as `10.0.0.0/8`, or `*`. This machine
  itself (`localhost`, `127.0.0.1`) is never reached through a proxy.
- SSL_CERT_FILE, SSL_CERT_DIR, else REQUESTS_CA_BUNDLE: the certificates to trust instead of the usual ones, which are
  those of the system and, where OpenSSL reads files, those of Mozilla.
"""

from __future__ import annotations

import functools
import os
import re
import ssl
import sys
from ipaddress import ip_address, ip_network
from urllib.parse import urlsplit

from nbagent.errors import ConfigurationError


def proxy_for(scheme: str, host: str, port: int | None = None) -> str | None:
    """The address of the proxy on the way to a server, or None where there is none.

    >>> proxy_for("http", "127.0.0.1", 8000) is None
    True
    """
    from urllib.request import getproxies, proxy_bypass

    if _is_here(host):
        return None
    port = port or (443 if scheme == "https" else 80)
    proxies = getproxies()
    proxy = proxies.get(scheme) or proxies.get("all")
    if not proxy or proxy_bypass(f"{host}:{port}") or _excepted(host, proxies.get("no", "")):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def without_password(url: str) -> str:
    """An address as it may be shown.

    >>> without_password("http://ada:p@ss@proxy.example:3128")
    'http://proxy.example:3128'
    """
    if "@" not in url:
        return url
    scheme = re.match(r"[a-z0-9+.-]+://", url, re.IGNORECASE)
    return f"{scheme[0] if scheme else ''}{url.rpartition('@')[2]}"


def checked_address(base_url: str) -> str:
    """A base URL without a slash at its end. Raises `ConfigurationError` for what is none.

    >>> checked_address("http://localhost:8000/v1/")
    'http://localhost:8000/v1'
    """
    try:
        parts = urlsplit(base_url)
        fits = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is none, a bracket that is not closed
        fits = False
    if base_url and (not fits or re.search(r"\s", base_url)):
        raise ConfigurationError(
            f"base_url={without_password(base_url)!r} is no address of a server: give one such as "
            "'http://localhost:8000/v1' or 'https://api.example.com/v1'."
        )
    return base_url.rstrip("/")


def _is_here(host: str) -> bool:
    """Whether a host is this machine."""
    try:
        address = ip_address(host)
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
    return address.is_loopback or address.is_unspecified


def _excepted(host: str, no_proxy: str) -> bool:
    """What urllib's reading of NO_PROXY leaves out: networks, and names that begin with `*.`."""
    for entry in (part.strip().lower() for part in no_proxy.split(",")):
        if entry.startswith("*.") and host.lower().endswith(entry[1:]):
            return True
        try:
            if "/" in entry and ip_address(host) in ip_network(entry, strict=False):
                return True
        except ValueError:  # one of them is a name
            continue
    return False


def tls_context() -> ssl.SSLContext:
    """What to trust, as the environment says now. Reading it takes tens of milliseconds; the last ones are kept.

    Raises `ConfigurationError` for a variable that names no certificates.
    """
    return _context(*(os.environ.get(name, "") for name in ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE")))


@functools.lru_cache(maxsize=8)
def _context(file: str, directory: str, bundle: str) -> ssl.SSLContext:
    name, value = ("REQUESTS_CA_BUNDLE", bundle) if not file and not directory else ("SSL_CERT_FILE", file)
    if name == "REQUESTS_CA_BUNDLE":
        file, directory = ("", bundle) if os.path.isdir(bundle) else (bundle, "")
    if directory and not file and not any(map(os.path.isdir, directory.split(os.pathsep))):
        raise ConfigurationError(f"SSL_CERT_DIR={directory!r} is no directory: correct it, or unset it.")
    if file or directory:
        try:
            return ssl.create_default_context(cafile=file or None, capath=directory or None)
        except OSError as exc:
            raise ConfigurationError(
                f"{name}={value!r} can't be read as a file of certificates in PEM form ({exc.strerror or exc})."
            ) from None
    if sys.platform in ("darwin", "win32"):  # their certificates are not in files
        import truststore

        return truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    import certifi

    context = ssl.create_default_context(cafile=certifi.where())
    context.load_default_certs()
    return context
