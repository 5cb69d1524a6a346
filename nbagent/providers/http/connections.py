"""Connections: each request has one of its own, which is kept for the next, and all are closed with their event loop.

`Connections` is a transport for the clients of httpx, and of httpx2, which the SDKs use. The pool that these libraries
bring along looks at every connection whenever a request comes or goes; here a kept connection is taken and put back.
Only behind a proxy are their own transports used. A connection that the server closed while it was idle costs nothing
but the time to make another.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import socket
import ssl
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from nbagent.core.aclose import aclose_if_possible
from nbagent.errors import ConfigurationError, MissingDependencyError
from nbagent.providers.http.environment import proxy_for, tls_context, without_password
from nbagent.providers.http.network import HTTPConnection, connect

#: How long an idle connection is kept. Servers close them after 5 s (uvicorn, llama.cpp) to some minutes.
KEPT_S = 30.0
MOST_KEPT = 100
_LAST_PORT = 65535
#: Probes on a silent connection (after a minute, each minute, five): routers on the way forget it otherwise while a
#: model thinks. By the names that the platform has.
_PROBES = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 60, "TCP_KEEPCNT": 5}

Origin = tuple[str, str, int | None]


@dataclass(slots=True, eq=False)
class Connection:
    """One connection: where it leads, the library's transport with it alone, its stream, and since when it is idle."""

    origin: Origin
    transport: Any
    stream: Any
    since: float = 0.0


class Connections:
    """The transport of a client on one event loop. `http` is the library, `httpx` or `httpx2`.

    Proxies and certificates are those of the environment at the time of connecting.

    >>> Connections(httpx).client(timeout=60)
    """

    def __init__(self, http: ModuleType, most_kept: int = MOST_KEPT) -> None:
        self._http = http
        self._most_kept = most_kept
        self._idle: dict[Origin, deque[Connection]] = {}
        self._lent: set[Connection] = set()
        #: Nothing is kept any more.
        self.closed = False

    def client(self, timeout: Any, **options: Any) -> Any:
        """A client of the library on these connections."""
        return self._http.AsyncClient(transport=self, timeout=timeout, trust_env=False, **options)

    def plain_client(self, timeout: Any) -> PlainClient:
        """What sends on these connections without a client's cookies, redirects and authentication."""
        return PlainClient(self, self._http, timeout)

    async def handle_async_request(self, request: Any) -> Any:
        """Send a request (a body of bytes, which can be sent again) -> the response, still to be read."""
        url = request.url
        origin = (url.scheme, url.host, url.port)
        kept = await self._take(origin)
        if kept is not None:
            try:
                return self._lend(kept, await _answer(kept.transport, request))
            except (self._http.RemoteProtocolError, self._http.ReadError, self._http.WriteError):
                pass  # closed by the server in this moment: nothing has come of an answer
        proxy = proxy_for(*origin)
        transport = self._transport(url.scheme, proxy)
        with _proxy_named(self._http, request, proxy):
            response = await _answer(transport, request)
            if proxy and response.status_code == 407:
                await response.aclose()
                raise self._http.ProxyError("407 Proxy Authentication Required")
        return self._lend(Connection(origin, transport, response.extensions["network_stream"]), response)

    def _transport(self, scheme: str, proxy: str | None) -> Any:
        """A transport for one connection: behind a proxy, the library's own."""
        http = self._http
        if not proxy:
            return _Direct(http)
        by_tls = proxy.startswith("https:")
        context = tls_context() if by_tls or scheme == "https" else _trusts_nobody()
        limits = http.Limits(max_connections=1, max_keepalive_connections=1)
        try:
            return http.AsyncHTTPTransport(
                verify=context,
                limits=limits,
                proxy=http.Proxy(proxy, ssl_context=context if by_tls else None),
                socket_options=_socket_options(),
            )
        except ImportError:
            raise MissingDependencyError(
                f"The proxy {without_password(proxy)} needs the package socksio: pip install socksio"
            ) from None
        except (ValueError, http.InvalidURL):
            raise ConfigurationError(
                f"{without_password(proxy)!r} is no address of a proxy: correct HTTPS_PROXY, HTTP_PROXY or "
                "ALL_PROXY, such as http://user:password@proxy.example:3128."
            ) from None

    async def _take(self, origin: Origin) -> Connection | None:
        """The connection that was put back last, if it is fit for use; those that are not are closed."""
        idle = self._idle.get(origin)
        while idle:
            kept = idle.pop()
            # what can be read from an idle connection is its end
            if kept.since > time.monotonic() - KEPT_S and not kept.stream.get_extra_info("is_readable"):
                return kept
            await kept.transport.aclose()
        return None

    def _lend(self, connection: Connection, response: Any) -> Any:
        """The response; when it is closed, the connection is put back."""
        self._lent.add(connection)
        response.stream = _lent_stream(self._http)(response.stream, functools.partial(self._put_back, connection))
        return response

    async def _put_back(self, connection: Connection, fit: bool) -> None:
        self._lent.discard(connection)
        if not fit:
            await connection.transport.aclose()
            return
        idle = self._idle.setdefault(connection.origin, deque())
        connection.since = time.monotonic()
        idle.append(connection)
        while idle and (self.closed or len(idle) > self._most_kept or idle[0].since < connection.since - KEPT_S):
            await idle.popleft().transport.aclose()

    async def aclose(self) -> None:
        """Close all connections, also those in use."""
        self.closed = True
        for each in self._drained():
            await each.transport.aclose()

    def abandon(self) -> None:
        """Close all connections where the event loop is closed already, and nothing can be awaited any more."""
        self.closed = True
        for each in self._drained():
            _end(each.stream)

    def _drained(self) -> Iterator[Connection]:
        while self._lent:
            yield self._lent.pop()
        for idle in list(self._idle.values()):  # what is put back meanwhile is closed by that
            while idle:
                yield idle.pop()


async def _answer(transport: Any, request: Any) -> Any:
    """The transport's response, or its connection closed: the library leaves it open where it is cancelled early."""
    try:
        return await transport.handle_async_request(request)
    except BaseException:
        await transport.aclose()
        raise


class PlainClient:
    """The two methods of a library's client that a request needs, without cookies, redirects and authentication.

    >>> client = Connections(httpx).plain_client(httpx.Timeout(60))
    >>> response = await client.send(client.build_request("GET", "http://127.0.0.1/", None, {}), stream=True)
    """

    def __init__(self, connections: Connections, http: ModuleType, timeout: Any) -> None:
        self._connections = connections
        self._http = http
        self._url = functools.lru_cache(maxsize=16)(http.URL)
        self._headers = dict(connections.client(timeout).headers)
        self._extensions = {"timeout": timeout.as_dict()}

    def build_request(self, method: str, url: str, content: bytes | None, headers: dict[str, str]) -> Any:
        """The library's request."""
        headers = {**self._headers, **headers}
        return self._http.Request(method, self._url(url), headers=headers, content=content, extensions=self._extensions)

    async def send(self, request: Any, stream: bool) -> Any:
        """The library's response, still to be read."""
        try:
            response = await self._connections.handle_async_request(request)
        except self._http.RequestError as exc:
            exc.request = request
            raise
        response.request = request
        return response


class _Direct:
    """A library's transport for one connection to a server, without its pool."""

    def __init__(self, http: ModuleType) -> None:
        self._http = http
        self._connection: HTTPConnection | None = None

    async def handle_async_request(self, request: Any) -> Any:
        """See `httpx.AsyncBaseTransport`."""
        if self._connection is None:
            self._connection = await self._connect(request.url, request.extensions.get("timeout", {}).get("connect"))
        answer = await self._connection.request(request)
        extensions = {"network_stream": self._connection}
        return self._http.Response(answer.status, headers=answer.headers, stream=answer, extensions=extensions)

    async def _connect(self, url: Any, timeout: float | None) -> HTTPConnection:
        if url.scheme not in ("http", "https"):
            raise self._http.UnsupportedProtocol(f"{url.scheme!r} is neither http nor https")
        context = tls_context() if url.scheme == "https" else None
        port = url.port or (443 if context else 80)
        if port > _LAST_PORT:
            raise self._http.InvalidURL(f"there is no port {port}")
        return await connect(self._http, url.raw_host.decode("ascii"), port, context, timeout, _socket_options())

    async def aclose(self) -> None:
        """Close the connection, if there is one."""
        if self._connection is not None:
            self._connection.close()


def _end(stream: Any) -> None:
    """Close the socket under a network stream whose event loop is closed.

    The public ways all end in a call to the loop. What asyncio itself would do in that call is done by hand, through
    the layers of asyncio's TLS, or of httpcore and anyio behind a proxy; should they be others one day, the socket is
    closed when it is collected.
    """
    inner = getattr(stream, "_stream", stream)
    transport = getattr(getattr(inner, "transport_stream", inner), "_transport", None)
    below = getattr(getattr(transport, "_ssl_protocol", None), "_transport", transport)
    with contextlib.suppress(RuntimeError):  # the loop is closed
        if transport is not None:
            transport.abort()
    with contextlib.suppress(AttributeError, RuntimeError):
        below._call_connection_lost(None)  # type: ignore[union-attr]


@functools.cache
def _lent_stream(http: ModuleType) -> Any:
    """A stream class of the library, which tells when it is closed."""

    class Lent(http.AsyncByteStream):  # type: ignore[name-defined, misc]
        def __init__(self, stream: Any, put_back: Callable[[bool], Awaitable[None]]) -> None:
            self._stream = stream
            self._put_back = put_back
            self._closed = False
            self._parts: AsyncIterator[bytes] = stream.__aiter__()

        def __aiter__(self) -> AsyncIterator[bytes]:
            return self

        def __anext__(self) -> Awaitable[bytes]:
            return self._parts.__anext__()

        async def aclose(self) -> None:
            if self._closed:
                return
            self._closed = True
            try:
                async with aclose_if_possible(self._parts):
                    await self._stream.aclose()
            except (Exception, asyncio.CancelledError):
                await self._put_back(False)
                raise
            await self._put_back(True)

    return Lent


@contextlib.contextmanager
def _proxy_named(http: ModuleType, request: Any, proxy: str | None) -> Iterator[None]:
    """Errors on the way to a proxy name it, without its password."""
    try:
        yield
    except (http.ProxyError, http.ConnectError, http.ConnectTimeout) as exc:
        if proxy is None or "SSL" in str(exc):  # in the latter case it may have been either end
            raise
        shown = without_password(proxy)
        if not isinstance(exc, http.ProxyError):
            text = f"the proxy {shown}, which the environment names, can't be reached: {exc or type(exc).__name__}"
        elif "407" in str(exc):
            text = f"the proxy {shown} wants a user and a password: HTTPS_PROXY=http://user:password@host:port ({exc})"
        else:
            text = f"the proxy {shown} refused: {exc}"
        raise http.ProxyError(text, request=request) from None


@functools.cache
def _trusts_nobody() -> ssl.SSLContext:
    """For connections without TLS."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


@functools.cache
def _socket_options() -> tuple[tuple[int, int, int], ...]:
    named = ((socket.IPPROTO_TCP, getattr(socket, name, None), value) for name, value in _PROBES.items())
    return (
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
        *((level, option, value) for level, option, value in named if option is not None),
    )


async def closed_with_loop(connections: Connections) -> AsyncGenerator[None]:
    """Started once and held, it closes the connections when it is collected, or when the event loop ends.

    An event loop closes the async generators that were started on it: `asyncio.run` asks it to, at its end, and one
    that nobody holds any more is closed at once, from whatever thread.
    """
    try:
        yield
    finally:
        try:
            await connections.aclose()
        except asyncio.CancelledError:  # collected as the loop ends, which cancels whatever runs on it
            await connections.aclose()
            raise
