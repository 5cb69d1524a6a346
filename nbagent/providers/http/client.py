"""HTTP clients: one for each event loop and provider, closed with its event loop.

All clients are httpx2 clients, which the OpenAI and Anthropic SDKs also use. Without a proxy, they use aiohttp's
connections, which halves the CPU time for each piece of an answer (see benchmarks/README.md). Behind a proxy, they use
httpx2's own connections, which support SOCKS.
"""

from __future__ import annotations

import asyncio
import functools
import os
import ssl
import weakref
from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING, Any

from nbagent.core.browser import IN_BROWSER
from nbagent.errors import ConfigurationError
from nbagent.providers.http.address import Target, proxy_for, without_password

if TYPE_CHECKING:
    import httpx2

CONNECT_TIMEOUT_S = 10.0
#: Seconds to keep an idle connection. Servers close it after 5 s (uvicorn, llama.cpp) or more, which an event loop
#: blocked by a cell would not notice.
KEPT_S = 4.0
#: The most bytes of a header line.
LONGEST_HEADER = 2**16
#: Certificates to trust instead of the system's: the first of these variables that is set.
CERTIFICATE_VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE")


class ClientPerLoop:
    """Keeps a client for each event loop, since connections belong to one event loop.

    A client is closed with its event loop, by `aclose`, or when nothing refers to this object any more.
    """

    def __init__(self) -> None:
        #: The clients, each with the generator that closes the HTTP client below it.
        self._opened: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, tuple[Any, AsyncGenerator[None]]]
        self._opened = weakref.WeakKeyDictionary()
        # in a reference cycle, the garbage collector would finalize connections before the generators close them
        weakref.finalize(self, self._opened.clear).atexit = False

    async def get(self, target: Target, make: Callable[[Target], tuple[Any, httpx2.AsyncClient]]) -> Any:
        """The running event loop's client. If there is none yet, `make(target)` creates it and the HTTP client that it
        uses.

        This happens in a thread, because imports and reading certificates take time.
        """
        loop = asyncio.get_running_loop()
        if loop not in self._opened:
            client, http = await asyncio.to_thread(make, target)
            if loop not in self._opened:  # another request may have created one by now
                for ended in [each for each in self._opened if each.is_closed()]:
                    del self._opened[ended]
                closing = _closed_with_loop(http)
                await anext(closing)
                self._opened[loop] = client, closing
        return self._opened[loop][0]

    async def aclose(self) -> None:
        """Close the running event loop's client."""
        opened = self._opened.pop(asyncio.get_running_loop(), None)
        if opened is not None:
            await opened[1].aclose()


async def _closed_with_loop(http: httpx2.AsyncClient) -> AsyncGenerator[None]:
    """A generator that closes the client when the event loop ends, or when nothing refers to the generator.

    At its end, `asyncio.run` closes the async generators that were started on its event loop. The event loop closes an
    unreferenced one immediately, whichever thread dropped it.
    """
    try:
        yield
    finally:
        await http.aclose()


def new_http_client(target: Target) -> httpx2.AsyncClient:
    """Create a client for requests to `target`. It follows no redirects, which could send the key to another host.

    The proxy, and the hosts to reach without it, come from the environment. In a browser, the browser's own settings
    apply.

    Raises `ConfigurationError` if the certificates or the proxy can't be used.
    """
    import httpx2

    timeout = httpx2.Timeout(target.timeout, connect=min(CONNECT_TIMEOUT_S, target.timeout))
    if IN_BROWSER:
        return httpx2.AsyncClient(timeout=timeout)
    proxy = proxy_for(target.base_url)
    is_secure = proxy or target.base_url.startswith("https:")
    context = tls_context() if is_secure else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # which trusts nobody
    if proxy is None:
        return httpx2.AsyncClient(transport=_over_aiohttp(context), timeout=timeout)
    limits = httpx2.Limits(max_connections=None, keepalive_expiry=KEPT_S)
    try:
        return httpx2.AsyncClient(verify=context, limits=limits, timeout=timeout)
    except (ImportError, ValueError, httpx2.InvalidURL):
        raise ConfigurationError(
            f"The proxy {without_password(proxy)!r} can't be used. Correct HTTPS_PROXY, HTTP_PROXY or ALL_PROXY, as in "
            "http://user:password@proxy.example:3128. A SOCKS proxy needs `pip install socksio`."
        ) from None


def _over_aiohttp(context: ssl.SSLContext) -> httpx2.AsyncBaseTransport:
    """A transport over aiohttp, without a limit on connections and without cookies."""
    import aiohttp
    from httpx_aiohttp.httpx2 import AiohttpTransport

    def session() -> aiohttp.ClientSession:  # created on the event loop, at the first request
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=context, limit=0, keepalive_timeout=KEPT_S),
            cookie_jar=aiohttp.DummyCookieJar(),
            max_line_size=LONGEST_HEADER,
            max_field_size=LONGEST_HEADER,
        )

    return AiohttpTransport(verify=context, client=session)


def tls_context() -> ssl.SSLContext:
    """The trusted certificates, from the environment. They are cached, since reading them takes milliseconds.

    Raises `ConfigurationError` if the variable that is set does not point to certificates.
    """
    name = next((name for name in CERTIFICATE_VARIABLES if os.environ.get(name)), "")
    return _tls_context(name, os.environ.get(name, ""))


@functools.lru_cache(maxsize=8)
def _tls_context(name: str, path: str) -> ssl.SSLContext:
    import httpx2

    if not name:
        return httpx2.create_ssl_context(trust_env=False)
    directory = next((each for each in path.split(os.pathsep) if os.path.isdir(each)), None)
    try:
        return ssl.create_default_context(cafile=None if directory else path, capath=path if directory else None)
    except OSError as exc:
        raise ConfigurationError(
            f"{name}={path!r} does not name PEM certificates ({exc.strerror or exc}). Correct it, or unset it."
        ) from None
