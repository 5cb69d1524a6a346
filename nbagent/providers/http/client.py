"""HTTP clients: one for each event loop, made for the way to a server, and closed with its event loop.

A client is httpx2's, which both SDKs use as well. It sends over aiohttp's connections, through `httpx-aiohttp`: with
httpx2's own, a piece of a paced answer costs 2.0 times what it costs bare httpx, and a tool round 2.6 times; with
aiohttp's 1.4 and 2.1 times (see benchmarks/README.md). Behind a proxy it is httpx2's own transport, since
aiohttp's speaks to no SOCKS proxy, and CPU matters less there.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import os
import socket
import ssl
import warnings
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

from nbagent.core.browser import IN_BROWSER
from nbagent.core.model_request import Timing
from nbagent.errors import ConfigurationError, MissingDependencyError
from nbagent.providers.http.address import Target, behind_proxy, proxy_for, without_password
from nbagent.providers.http.errors import LONGEST_ERROR

if TYPE_CHECKING:
    import httpx2

CONNECT_TIMEOUT_S = 10.0
#: How long an idle connection is kept. Servers close them after 5 s (uvicorn, llama.cpp) to some minutes.
KEPT_S = 30.0
#: After so long without a request, the event loop first notices which idle connections have ended.
IDLE_S = 1.0
#: Bytes of one header line.
LONGEST_HEADER = 2**16
#: An answer may be compressed once, by one of these: each layer multiplies the memory that a piece can take.
COMPRESSIONS = ("gzip", "deflate")
#: Bytes of an error's body if it is compressed, which may make a thousand times as many.
LONGEST_PACKED_ERROR = 2**15
#: Certificates to trust instead of the system's: the first of these that is set.
CERTIFICATE_VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE")
#: Probes on a silent connection (after a minute, each minute, five): routers on the way forget it otherwise while a
#: model thinks. By the names that the platform has.
_PROBES = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 60, "TCP_KEEPCNT": 5}
#: What httpx's transports call the steps of connecting. Between them, a proxy may be asked for a tunnel.
_CONNECTING = ("connect_tcp", "connect_unix_socket", "setup_socks5_connection", "start_tls")

#: That of the request that is being sent, to which connecting is added.
current_timing: ContextVar[Timing] = ContextVar("nbagent_current_timing")


@dataclass
class _Opened:
    """The client of one event loop, the HTTP client below it, and the generator that closes both."""

    client: Any
    http: httpx2.AsyncClient
    closing: AsyncGenerator[None]
    used: float


class ClientPerLoop:
    """Connections belong to one event loop, so each event loop has a client.

    A client is closed with its event loop, by `aclose`, or when the last reference to this object goes.
    """

    def __init__(self) -> None:
        self._opened: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Opened] = weakref.WeakKeyDictionary()
        weakref.finalize(self, _close_ended, self._opened)

    async def get(self, target: Target, make: Callable[[Target], tuple[Any, httpx2.AsyncClient]]) -> Any:
        """The client of the running event loop, made by `make(target)` together with the HTTP client below it.

        It is made in a thread: imports and certificates take their time.
        """
        loop = asyncio.get_running_loop()
        opened = self._opened.get(loop)
        if opened is None or opened.http.is_closed:
            _close_ended(self._opened)
            client, http = await asyncio.to_thread(make, target)
            opened = self._opened.get(loop)  # another request may have been faster
            if opened is None or opened.http.is_closed:
                opened = self._opened[loop] = _Opened(client, http, _closed_with_loop(http), loop.time())
                await anext(opened.closing)
        elif loop.time() - opened.used > IDLE_S:  # perhaps a cell kept the event loop busy
            for _ in range(2):
                await asyncio.sleep(0)
        opened.used = loop.time()
        return opened.client

    async def aclose(self) -> None:
        """Close the running event loop's client."""
        opened = self._opened.pop(asyncio.get_running_loop(), None)
        if opened is not None:
            await opened.closing.aclose()


async def _closed_with_loop(http: httpx2.AsyncClient) -> AsyncGenerator[None]:
    """Started once and held, it closes the client when it is collected, or when the event loop ends.

    An event loop closes the async generators that were started on it: `asyncio.run` asks it to, at its end, and one
    that nobody holds any more is closed at once, from whatever thread.
    """
    try:
        yield
    finally:
        await http.aclose()


def _close_ended(opened: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Opened]) -> None:
    """Close the clients of event loops that were closed without asking their generators to end.

    Nothing can be awaited there any more. aiohttp's sessions close at their first step; the sockets below are closed by
    the garbage collector, which asyncio would warn of.
    """
    ended = [loop for ref in opened.keyrefs() if (loop := ref()) is not None and loop.is_closed()]
    if not ended:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        for loop in ended:
            closing = opened.pop(loop).http.aclose()
            with contextlib.suppress(Exception):  # StopIteration: it has ended
                closing.send(None)
            closing.close()
            del closing
        gc.collect()


def new_http_client(target: Target) -> httpx2.AsyncClient:
    """A client for requests to `target`. It follows no redirection, which would take the key to another host.

    Behind a proxy, httpx2 reads proxies and their exceptions from the environment; loopback never has one. In a
    browser, certificates, proxies and redirections are the browser's.

    Raises `ConfigurationError` for certificates or a proxy that can't be used.
    """
    import httpx2

    options: dict[str, Any] = {
        "timeout": httpx2.Timeout(target.timeout, connect=min(CONNECT_TIMEOUT_S, target.timeout)),
        "headers": {"Accept-Encoding": ", ".join(COMPRESSIONS)},
        "follow_redirects": False,
        "event_hooks": {"response": [_bounded_error]},
    }
    if IN_BROWSER:
        return httpx2.AsyncClient(**options)
    proxied = behind_proxy(target.base_url)
    context = tls_context() if proxied or target.base_url.startswith("https:") else _trusts_nobody()
    if not proxied:
        with contextlib.suppress(ImportError):  # aiohttp is compiled: a new Python or platform may have no wheel yet
            from httpx_aiohttp.httpx2 import AiohttpTransport

            transport = AiohttpTransport(verify=context, client=partial(_session, context))
            return httpx2.AsyncClient(transport=transport, trust_env=False, **options)
    options["event_hooks"]["request"] = [_timed]
    try:
        limits = httpx2.Limits(max_connections=None, keepalive_expiry=KEPT_S)
        return httpx2.AsyncClient(verify=context, limits=limits, trust_env=proxied, **options)
    except ImportError:
        proxy = without_password(proxy_for(target.base_url) or "named by the environment")
        raise MissingDependencyError(f"The proxy {proxy} needs the package socksio: pip install socksio") from None
    except (ValueError, httpx2.InvalidURL):
        proxy = without_password(proxy_for(target.base_url) or "named by the environment")
        raise ConfigurationError(
            f"The proxy {proxy!r} can't be used: correct HTTPS_PROXY, HTTP_PROXY or ALL_PROXY, such as "
            "http://user:password@proxy.example:3128."
        ) from None


async def _timed(request: httpx2.Request) -> None:
    request.extensions["trace"] = connecting(current_timing.get())


def connecting(timing: Timing) -> Callable[[str, Any], Awaitable[None]]:
    """For httpx's extension `trace`: counts as setting up what a request takes to connect, through proxies too."""
    begun, before = None, timing.setup_s

    async def note(event: str, _: Any) -> None:
        nonlocal begun
        _, step, state = event.split(".")
        if step in _CONNECTING:
            now = perf_counter()
            begun = now if begun is None else begun
            if state != "started":  # complete, or failed
                timing.setup_s = before + now - begun

    return note


async def _bounded_error(response: httpx2.Response) -> None:
    """Bound an error's body, which the SDKs read by themselves: by its length, and by how it is compressed.

    What is compressed in another way or twice is left as it came.
    """
    if response.is_error:
        is_packed = response.headers.get("content-encoding", "").lower() in COMPRESSIONS
        if not is_packed:
            response.headers.pop("content-encoding", None)
        response.stream = _beginning(response.stream, LONGEST_PACKED_ERROR if is_packed else LONGEST_ERROR)


def _beginning(stream: Any, most: int) -> httpx2.AsyncByteStream:
    """A body's first `most` bytes."""
    import httpx2

    class Beginning(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            left = most
            async for chunk in stream:
                yield chunk[:left]
                left -= len(chunk)
                if left <= 0:
                    return

        async def aclose(self) -> None:
            await stream.aclose()

    return Beginning()


def _session(context: ssl.SSLContext) -> Any:
    """An aiohttp session without a limit of connections and without cookies, on the running event loop."""
    import aiohttp

    class Connector(aiohttp.TCPConnector):
        async def connect(self, *args: Any, **kwargs: Any) -> Any:
            with current_timing.get().setting_up():
                return await super().connect(*args, **kwargs)

    connector = Connector(ssl=context, limit=0, keepalive_timeout=KEPT_S, socket_factory=_probed_socket)
    return aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        middlewares=(_sent_once,),
        max_line_size=LONGEST_HEADER,
        max_field_size=LONGEST_HEADER,
    )


async def _sent_once(request: Any, handler: Any) -> Any:
    """Give errors httpx's names. aiohttp would send a GET again after its own, and take a lost answer for a timeout."""
    import aiohttp
    import httpx2

    try:
        return await handler(request)
    except aiohttp.ConnectionTimeoutError as exc:
        raise httpx2.ConnectTimeout(str(exc)) from None
    except (aiohttp.ClientConnectorError, UnicodeError) as exc:  # the latter for names that can't be any host's
        raise httpx2.ConnectError(str(exc)) from exc
    except aiohttp.ServerDisconnectedError:
        raise httpx2.RemoteProtocolError("the server hung up without an answer") from None
    except aiohttp.ClientOSError as exc:
        raise httpx2.ReadError(f"the connection broke without an answer: {exc}") from None
    except aiohttp.ClientResponseError as exc:
        raise httpx2.RemoteProtocolError(f"the answer is not HTTP/1.1: {exc.message}") from None


def _probed_socket(address: Any) -> socket.socket:
    """A TCP socket that looks from time to time whether the other end is still there."""
    made = socket.socket(*address[:3])
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _PROBES.items():
        if hasattr(socket, name):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return made


def tls_context() -> ssl.SSLContext:
    """The certificates to trust, as the environment says now. Reading them takes milliseconds; the last are kept.

    Raises `ConfigurationError` for a variable that names no certificates.
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
            f"{name}={path!r} names no certificates in PEM form ({exc.strerror or exc}): correct it, or unset it."
        ) from None


@functools.cache
def _trusts_nobody() -> ssl.SSLContext:
    """For connections without TLS."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
