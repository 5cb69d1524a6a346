"""HTTP/1.1 over one connection: asyncio's own transports, and httptools, which Node's parser is in.

What httpx brings along runs on any kind of event loop and takes an answer apart in Python. For each piece of a paced
answer that costs as much as everything else that an agent does with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import re
import select
from collections.abc import Iterable
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

if TYPE_CHECKING:
    import ssl

log = logging.getLogger("nbagent")
#: Bytes that are taken from the system at a time.
MOST_AT_ONCE = 2**16
#: Bytes of an answer that came and that nobody has read yet; at more the server has to wait.
MOST_UNREAD = 2**18
#: Bytes of a request that are given to the system at a time.
MOST_UNSENT = 2**16
#: A server that has sent so much and not yet come to the body is none.
LONGEST_HEAD = 2**18
#: Where a name stands for several addresses, the next one is tried after so long, beside the first.
_NEXT_ADDRESS_S = 0.25
#: What httpcore calls what asyncio's transports tell of themselves.
_NAMES = {"client_addr": "sockname", "server_addr": "peername"}
#: A header that is one: its name a token, no line break in its value.
#: Source: RFC 9110, sections 5.1 and 5.5.
_HEADER = re.compile(rb"[!#-'*+.0-9A-Z^-z|~-]+: [^\0\r\n]*")


async def connect(
    http: ModuleType,
    host: str,
    port: int,
    context: ssl.SSLContext | None = None,
    timeout: float | None = None,
    options: Iterable[tuple[int, int, int]] = (),
) -> HTTPConnection:
    """A connection to a server, with TLS where there is a `context`. `http` is the library, `httpx` or `httpx2`.

    Raises its `ConnectError` or `ConnectTimeout`.
    """
    loop = asyncio.get_running_loop()
    made = partial(HTTPConnection, http, loop)
    # uvloop can't hurry, and asyncio's hurry may lose a connection that is cancelled in the moment in which it stands
    in_a_hurry = isinstance(loop, asyncio.BaseEventLoop) and _may_have_several_addresses(host)
    hurry: dict[str, Any] = {"happy_eyeballs_delay": _NEXT_ADDRESS_S} if in_a_hurry else {}
    if context is not None:
        context.set_alpn_protocols(["http/1.1"])
    try:
        async with asyncio.timeout(timeout):
            _, connection = await loop.create_connection(made, host, port, ssl=context, **hurry)
    except TimeoutError as exc:
        raise http.ConnectTimeout(str(exc)) from None
    except (OSError, UnicodeError) as exc:  # the latter for names that can't be any host's
        raise http.ConnectError(str(exc) or type(exc).__name__) from None
    with contextlib.suppress(OSError):  # macOS: the server has closed it already, which reading will tell
        for option in options:
            connection.get_extra_info("socket").setsockopt(*option)
    return connection


def _may_have_several_addresses(host: str) -> bool:
    """Whether it is the name of another machine."""
    with contextlib.suppress(ValueError):
        ipaddress.ip_address(host)
        return False
    return host != "localhost"


class HTTPConnection(asyncio.BufferedProtocol):
    """One connection, and the requests that follow each other on it.

    >>> connection = await connect(httpx, "127.0.0.1", 8000)
    >>> answer = await connection.request(httpx.Request("GET", "http://127.0.0.1:8000/"))
    >>> answer.status, b"".join([piece async for piece in answer])
    """

    _transport: asyncio.Transport

    def __init__(self, http: ModuleType, loop: asyncio.AbstractEventLoop) -> None:
        self._http = http
        self._loop = loop
        self._buffer = memoryview(bytearray(MOST_AT_ONCE))
        self._answer: Answer | None = None
        self._listening = True
        self._full = False
        self._ended = False
        self._failure: tuple[str, str] | None = None
        self._waiter: asyncio.Future[None] | None = None
        #: When the waiter gives up, or None, and with what. The timer rings then or earlier: it outlives most waiters.
        self._deadline: float | None = None
        self._too_late = ""
        self._timer: asyncio.TimerHandle | None = None

    async def request(self, request: Any) -> Answer:
        """Send a request of the library's -> the answer, whose body is still to be read.

        Its time limits, in seconds, are those of its extension `timeout`: to `write`, and to `read` each piece. Raises
        the library's `TransportError`s.
        """
        limits = request.extensions.get("timeout", {})
        whole = _head(self._http, request) + await request.aread()
        answer = self._answer = Answer(self, limits.get("read"))
        await self._send(whole, answer, limits.get("write"))
        while not answer.begun:
            await self.more(answer)
        log.debug("%s %s%s: %d", request.method, request.url.host, request.url.path, answer.status)
        return answer

    async def _send(self, whole: bytes, answer: Answer, timeout: float | None) -> None:
        """A server may answer before it has taken all, and take no more: then what it said is what counts."""
        for start in range(0, len(whole), MOST_UNSENT):  # TLS would take it all, and say that it has been sent
            if not self._transport.is_closing():
                self._transport.write(memoryview(whole)[start : start + MOST_UNSENT])
            while self._full and not self._ended:
                if answer.complete:
                    answer.reusable = False
                    return
                await self._wait(timeout, "WriteTimeout")

    async def more(self, answer: Answer) -> None:
        """Wait until more of the answer has come. Raises the reason why no more will."""
        if not self._listening:
            self._listening = True
            self._transport.resume_reading()
        if self._ended:
            error, text = self._failure or ("RemoteProtocolError", f"the server hung up {answer.progress}")
            raise getattr(self._http, error)(text)
        await self._wait(answer.timeout, "ReadTimeout")

    def release(self, answer: Answer) -> None:
        """The next request may come; or none, where the answer did not come to its end."""
        self._answer = None
        if not answer.reusable:
            self.close()

    def close(self) -> None:
        """Close at once, also in the middle of something."""
        self._fail("ReadError", "the connection was closed here")

    def _fail(self, error: str, text: str) -> None:
        """What came is of no use, or was not wanted any more."""
        self._failure = self._failure or (error, text)
        self._transport.abort()

    def get_extra_info(self, info: str) -> Any:
        """`ssl_object`, `socket`, `client_addr`, `server_addr`; `is_readable`: something has come, or the end."""
        if info != "is_readable":
            return self._transport.get_extra_info(_NAMES.get(info, info))
        return self._ended or self._transport.is_closing() or self._has_come()

    # what asyncio calls

    def connection_made(self, transport: Any) -> None:
        """The connection stands."""
        self._transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next piece goes.

        With TLS all of what has come must find room, which `sizehint` tells: when the server has closed, asyncio asks
        but once.
        """
        if sizehint > len(self._buffer):
            self._buffer = memoryview(bytearray(sizehint))
        return self._buffer

    def buffer_updated(self, size: int) -> None:
        """A piece has come."""
        answer = self._answer
        if answer is None:
            self._fail("RemoteProtocolError", "the server said something that it was not asked for")
            return
        try:
            answer.feed(self._buffer[:size])
        except (HttpParserError, HttpParserUpgrade) as exc:
            self._fail("RemoteProtocolError", f"what the server says is no HTTP/1.1: {exc}")
        if answer.unread > MOST_UNREAD and self._listening:
            self._listening = False
            self._transport.pause_reading()
        self._wake()

    def eof_received(self) -> None:
        """The server has said all. The transport closes itself."""
        self._ended = True
        if self._answer is not None:
            self._answer.ends()
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is closed, `exc` says why if it was not on purpose."""
        self._ended = True
        if exc is not None:
            self._failure = self._failure or ("ReadError", str(exc))
        if self._timer is not None:
            self._timer.cancel()
        self._wake()

    def pause_writing(self) -> None:
        """The system takes no more for now."""
        self._full = True

    def resume_writing(self) -> None:
        """The system takes more."""
        self._full = False
        self._wake()

    # waiting

    async def _wait(self, timeout: float | None, too_late: str) -> None:
        """Wait for the next thing that asyncio calls."""
        self._waiter = self._loop.create_future()
        self._too_late = too_late
        self._deadline = None if timeout is None else self._loop.time() + timeout
        if self._deadline is not None and (self._timer is None or self._timer.when() > self._deadline):
            self._set_timer(self._deadline)
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _set_timer(self, deadline: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(deadline, self._ring)

    def _ring(self) -> None:
        self._timer = None
        if self._waiter is None or self._deadline is None:
            return
        if self._loop.time() < self._deadline:
            self._set_timer(self._deadline)
        elif not self._waiter.done():
            self._waiter.set_exception(getattr(self._http, self._too_late)(""))

    def _has_come(self) -> bool:
        """Whether there is something that the event loop has had no time yet to look at."""
        descriptor = self._transport.get_extra_info("socket").fileno()
        if not hasattr(select, "poll"):  # Windows
            return bool(select.select([descriptor], [], [], 0)[0])
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        return bool(poll.poll(0))


class Answer:
    """An answer: status and headers, and its body, piece by piece as it comes."""

    def __init__(self, connection: HTTPConnection, timeout: float | None) -> None:
        self._connection = connection
        #: Seconds to wait for each piece.
        self.timeout = timeout
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        #: Whether status and headers are there, and whether everything is.
        self.begun = False
        self.complete = False
        #: Whether its connection can be used again.
        self.reusable = False
        #: Bytes that came and were not read.
        self.unread = 0
        self._pieces: list[bytes] = []
        self._head_size = 0
        self._closed = False
        self._parser = HttpResponseParser(self)
        self._parser.set_dangerous_leniencies(
            lenient_chunked_length=True, lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True
        )

    def __aiter__(self) -> Answer:
        return self

    async def __anext__(self) -> bytes:
        while not self._pieces:
            if self.complete:
                raise StopAsyncIteration
            await self._connection.more(self)
        piece = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
        self.unread = 0
        return piece

    async def aclose(self) -> None:
        """No more of it is read."""
        if not self._closed:
            self._closed = True
            self._connection.release(self)
            del self._parser  # it holds the methods below: without a cycle all goes at once

    @property
    def progress(self) -> str:
        """How far it came, in words."""
        return "in the middle of its answer" if self.begun else "without an answer"

    def feed(self, data: memoryview) -> None:
        """Take a piece of the connection's bytes. Raises `HttpParserError` for what is no HTTP."""
        if not self.begun:
            self._head_size += len(data)
        self._parser.feed_data(data)
        if not self.begun and self._head_size > LONGEST_HEAD:
            raise HttpParserError("its headers do not end")

    def ends(self) -> None:
        """The connection has ended, and with it a body whose length was not told."""
        told = (b"content-length", b"transfer-encoding")
        self.complete = self.complete or (self.begun and not any(name.lower() in told for name, _ in self.headers))

    # what httptools calls

    def on_message_begin(self) -> None:
        """The first of an answer, or of a second one, which nobody asked for."""
        if self.complete:
            raise ValueError("two answers to one request")

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header, or what follows the body in the form of one."""
        if not self.begun:
            self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        """The headers of an answer, or of a notice ahead of it, such as "100 Continue"."""
        self.status = self._parser.get_status_code()
        self.begun = self.status >= 200
        if not self.begun:
            self.headers.clear()

    def on_body(self, data: bytes) -> None:
        """Some of the body."""
        self._pieces.append(data)
        self.unread += len(data)

    def on_message_complete(self) -> None:
        """The answer, or a notice ahead of it, is whole."""
        self.complete = self.begun
        self.reusable = self.begun and self._parser.should_keep_alive()


def _head(http: ModuleType, request: Any) -> bytes:
    """A request up to its body. Raises `LocalProtocolError` for headers that are none."""
    lines = [b"%b %b HTTP/1.1" % (request.method.encode(), request.url.raw_path)]
    for name, value in request.headers.raw:
        line = b"%b: %b" % (name, value)
        if not _HEADER.fullmatch(line):
            raise http.LocalProtocolError(f"the header {name.decode('latin-1')!r} holds characters that no header has")
        lines.append(line)
    return b"\r\n".join([*lines, b"", b""])
