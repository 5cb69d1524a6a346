"""HTTP/1.1 over asyncio: a transport of one connection for the clients of httpx, and of httpx2, which the SDKs use.

A streamed answer comes in hundreds of small pieces. On its way through h11, httpcore and anyio a piece costs several
times what is in it; here it costs a look for its chunk's size. The client keeps all the rest: addresses, headers,
content encodings, errors. Format: RFC 9112 (https://www.rfc-editor.org/rfc/rfc9112).
"""

from __future__ import annotations

import asyncio
import functools
import re
import ssl
import time
from collections.abc import AsyncIterator, Callable, Sequence
from types import ModuleType
from typing import Any

from nbagent.providers.http_framing import Framing, Headers, UntilEnd, framing_of, is_kept

#: How long an idle connection is kept. Servers close them after 5 s (uvicorn, llama.cpp) to some minutes.
KEPT_S = 30.0
LONGEST_HEAD = 64 * 2**10
#: So much of an answer waits in memory for its reader before the server is made to wait.
MOST_UNREAD = 2**20
#: A request is written in pieces, each within the write timeout.
PIECE = 256 * 2**10
#: Seconds before another of a host's addresses is tried beside the first.
NEXT_ADDRESS_S = 0.25

_END_OF_HEAD = re.compile(rb"\r?\n\r?\n")
_END_OF_LINE = re.compile(rb"\r?\n")
_STATUS_LINE = re.compile(rb"HTTP/(1\.[01]) ([1-9]\d\d)(?: (.*))?")
_UNSENDABLE = re.compile(rb"[\r\n\0]")


class Connection:
    """One connection at a time, made at the first request and kept while the server and the answers allow it.

    `http` is the library, `httpx` or `httpx2`; `context` what to trust, for https. Answers are read one after the
    other: close one before the next request.

    >>> client = httpx.AsyncClient(transport=Connection(httpx))     # doctest: +SKIP
    """

    def __init__(
        self,
        http: ModuleType,
        context: ssl.SSLContext | None = None,
        socket_options: Sequence[tuple[int, int, int]] = (),
    ) -> None:
        self._http = http
        self._context = context
        self._socket_options = socket_options
        self._channel: Channel | None = None
        self._idle_since = 0.0
        #: Between a request and the end of its answer.
        self.busy = False

    async def handle_async_request(self, request: Any) -> Any:
        """Send a request -> the response, still to be read. Raises the library's own errors."""
        timeouts = request.extensions.get("timeout", {})
        self.busy = True
        try:
            if request.url.scheme not in ("http", "https"):
                raise self._http.UnsupportedProtocol(f"{request.url.scheme!r} is neither http nor https")
            data = self._encoded(request, await request.aread())
            channel = await self._ready(request.url, timeouts.get("connect"))
            await self._send(channel, data, timeouts.get("write"))
            version, status, reason, headers = await self._head(channel, timeouts.get("read"))
            framing = framing_of(status, headers, request.method)
        except ValueError as exc:
            await self.aclose()
            raise self._http.RemoteProtocolError(str(exc)) from None
        except BaseException:
            await self.aclose()
            raise
        pieces = functools.partial(self._pieces, channel, framing, timeouts.get("read"))
        ended = functools.partial(self._ended, framing, is_kept(version, headers))
        extensions = {"http_version": b"HTTP/" + version, "reason_phrase": reason, "network_stream": channel}
        stream = _stream_class(self._http)(pieces, ended)
        return self._http.Response(status, headers=headers, stream=stream, extensions=extensions)

    async def aclose(self) -> None:
        """Close the connection, whatever is still to be read from it."""
        channel, self._channel = self._channel, None
        self.busy = False
        if channel is not None:
            channel.abort()
            await asyncio.sleep(0)  # the socket is closed in the loop's next round

    def _encoded(self, request: Any, body: bytes) -> bytes:
        """The request's bytes."""
        lines = [b"%s %s HTTP/1.1" % (request.method.encode("ascii"), request.url.raw_path)]
        for name, value in request.headers.raw:
            if _UNSENDABLE.search(name + value):
                raise self._http.LocalProtocolError(f"the header {name.decode('latin-1')!r} can't be sent")
            lines.append(b"%s: %s" % (name, value))
        return b"\r\n".join([*lines, b"", body])

    async def _ready(self, url: Any, timeout: float | None) -> Channel:
        """The connection as it stands, or a new one where it was closed or is idle for too long."""
        channel = self._channel
        if channel is None or not channel.is_fit or self._idle_since < time.monotonic() - KEPT_S:
            if channel is not None:
                channel.abort()
            channel = self._channel = await self._connect(url, timeout)
        return channel

    async def _connect(self, url: Any, timeout: float | None) -> Channel:
        host = url.raw_host.decode("ascii")
        secure = url.scheme == "https"
        try:
            async with asyncio.timeout(timeout):
                _, channel = await asyncio.get_running_loop().create_connection(
                    Channel,
                    host,
                    url.port or (443 if secure else 80),
                    ssl=(self._context or ssl.create_default_context()) if secure else None,
                    happy_eyeballs_delay=NEXT_ADDRESS_S,
                )
        except TimeoutError as exc:
            raise self._http.ConnectTimeout(str(exc) or f"no connection to {host} within {timeout} s") from exc
        except (OSError, UnicodeError) as exc:  # ssl.SSLError is an OSError, a name that is none a UnicodeError
            raise self._http.ConnectError(str(exc)) from exc
        for option in self._socket_options:
            channel.get_extra_info("socket").setsockopt(*option)
        return channel

    async def _send(self, channel: Channel, data: bytes, timeout: float | None) -> None:
        """Write it all, or until the server answers and hangs up before it has read all."""
        try:
            await channel.send(data, timeout)
        except TimeoutError:
            raise self._http.WriteTimeout(f"the server took nothing for {timeout} s") from None

    async def _more(self, channel: Channel, timeout: float | None) -> None:
        """Wait for more of an answer that is not whole."""
        if channel.ended:
            if channel.error is not None:
                raise self._http.ReadError(str(channel.error)) from channel.error
            raise self._http.RemoteProtocolError("the server closed the connection before its answer was whole")
        try:
            await channel.wait(timeout)
        except TimeoutError:
            raise self._http.ReadTimeout(f"the server sent nothing for {timeout} s") from None

    async def _head(self, channel: Channel, timeout: float | None) -> tuple[bytes, int, bytes, Headers]:
        """`(version, status, reason, headers)`; interim answers (1xx) are read over."""
        while True:
            while (end := _END_OF_HEAD.search(channel.buffer)) is None:
                if len(channel.buffer) > LONGEST_HEAD:
                    raise self._http.RemoteProtocolError(f"the answer's headers have more than {LONGEST_HEAD} bytes")
                await self._more(channel, timeout)
            first, *lines = _END_OF_LINE.split(channel.buffer[: end.start()])
            del channel.buffer[: end.end()]
            status = _STATUS_LINE.fullmatch(first)
            if status is None:
                raise self._http.RemoteProtocolError(f"the answer is no HTTP: {bytes(first[:80])!r}")
            if not status[2].startswith(b"1"):
                return bytes(status[1]), int(status[2]), bytes(status[3] or b""), self._headers(lines)

    def _headers(self, lines: Sequence[bytes]) -> Headers:
        headers = []
        for line in lines:
            name, colon, value = line.partition(b":")
            if not colon or not name or name != name.strip():
                raise self._http.RemoteProtocolError(f"the answer's header {bytes(line[:80])!r} can't be read")
            headers.append((bytes(name), bytes(value.strip())))
        return headers

    async def _pieces(self, channel: Channel, framing: Framing, timeout: float | None) -> AsyncIterator[bytes]:
        """The answer's body as it comes."""
        while True:
            try:
                piece = framing.take(channel.buffer)
            except ValueError as exc:
                raise self._http.RemoteProtocolError(str(exc)) from None
            if piece:
                yield piece
            if framing.complete:
                return
            if channel.ended and channel.error is None and isinstance(framing, UntilEnd):
                framing.complete = True
                return
            await self._more(channel, timeout)

    async def _ended(self, framing: Framing, keep: bool) -> None:
        """An answer was closed: its connection is kept if all of it was read."""
        if keep and framing.complete:
            self.busy = False
            self._idle_since = time.monotonic()
        else:
            await self.aclose()


class Channel(asyncio.Protocol):
    """A connection's two directions: what came in and was not read yet, and how to wait for more."""

    def __init__(self) -> None:
        self.buffer = bytearray()
        #: Nothing will come any more; `error` says why, if the end was not a regular one.
        self.ended = False
        self.error: Exception | None = None
        self._loop = asyncio.get_running_loop()
        self._transport: Any = None
        self._waiter: asyncio.Future[None] | None = None
        self._deadline = 0.0
        self._alarm: asyncio.TimerHandle | None = None
        self._reading_paused = False
        self._writing_paused = False

    @property
    def is_fit(self) -> bool:
        """Whether a request can be sent: what comes from an idle connection is its end."""
        return not self.ended and not self.buffer

    async def send(self, data: bytes, timeout: float | None) -> None:
        """Write, as fast as the other side takes it; ends early with the connection. Raises TimeoutError."""
        for at in range(0, len(data), PIECE):
            if self.ended:
                return
            self._transport.write(data[at : at + PIECE])
            while self._writing_paused and not self.ended:
                await self.wait(timeout)

    async def wait(self, timeout: float | None) -> None:
        """Until something happens. Raises TimeoutError when it does not, within `timeout` seconds."""
        if self._reading_paused:
            self._reading_paused = False
            self._transport.resume_reading()
        self._waiter = waiter = self._loop.create_future()
        if timeout is not None:
            self._deadline = self._loop.time() + timeout
            if self._alarm is None or self._alarm.when() > self._deadline:
                self._set_alarm(self._deadline)
        try:
            await waiter
        finally:
            self._waiter = None

    def _set_alarm(self, deadline: float | None) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = None if deadline is None else self._loop.call_at(deadline, self._ring)

    def _ring(self) -> None:
        """One alarm serves many waits, since most end long before their deadline."""
        self._alarm = None
        if self._waiter is None or self._waiter.done():
            return
        if self._loop.time() < self._deadline:
            self._set_alarm(self._deadline)
        else:
            self._waiter.set_exception(TimeoutError())

    def abort(self) -> None:
        """Close at once."""
        self.ended = True
        self._transport.abort()

    def get_extra_info(self, info: str) -> Any:
        """As a network stream of httpcore: `is_readable` and what asyncio knows."""
        return not self.is_fit if info == "is_readable" else self._transport.get_extra_info(info)

    def connection_made(self, transport: Any) -> None:
        """Called by asyncio, as are all that follow."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """A piece of an answer."""
        self.buffer += data
        if len(self.buffer) > MOST_UNREAD and not self._reading_paused:
            self._reading_paused = True
            self._transport.pause_reading()
        self._wake()

    def eof_received(self) -> None:
        """The server has said all; asyncio closes the connection."""
        self.ended = True
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is over, well or not."""
        self.error = self.error or (None if self.ended else exc)
        self.ended = True
        self._set_alarm(None)
        self._wake()

    def pause_writing(self) -> None:
        """The server takes less than is sent."""
        self._writing_paused = True

    def resume_writing(self) -> None:
        """It has caught up."""
        self._writing_paused = False
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


@functools.cache
def _stream_class(http: ModuleType) -> Any:
    """A body as the library wants it."""

    class Stream(http.AsyncByteStream):  # type: ignore[name-defined, misc]
        def __init__(self, pieces: Callable[[], AsyncIterator[bytes]], ended: Callable[[], Any]) -> None:
            self._pieces = pieces
            self._ended = ended

        def __aiter__(self) -> AsyncIterator[bytes]:
            return self._pieces()

        async def aclose(self) -> None:
            await self._ended()

    return Stream
