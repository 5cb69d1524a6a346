"""The bytes under an HTTP connection: a network stream of httpcore's, on asyncio's own transports.

The one that httpcore brings along runs on any kind of event loop, by way of anyio. It starts and stops to listen, makes
a timer and gives way to other tasks for each piece that it reads, which is a third of what a paced answer costs.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import selectors
from collections.abc import Iterable
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import ssl

#: Bytes that came and that nobody has read yet; at more the server has to wait.
MOST_UNREAD = 2**18
#: Bytes that wait for more of a request; they go out together.
MOST_UNSENT = 2**16
#: Where a name stands for several addresses, the next one is tried after so long, beside the first.
_NEXT_ADDRESS_S = 0.25
#: What httpcore calls what asyncio's transports tell of themselves.
_NAMES = {"client_addr": "sockname", "server_addr": "peername"}


async def connect(
    core: ModuleType,
    host: str,
    port: int,
    context: ssl.SSLContext | None = None,
    timeout: float | None = None,
    options: Iterable[tuple[int, int, int]] = (),
) -> NetworkStream:
    """A stream to a server, with TLS where there is a `context`. `core` is the library, `httpcore` or `httpcore2`.

    Raises its `ConnectError` or `ConnectTimeout`.
    """
    loop = asyncio.get_running_loop()
    made = partial(NetworkStream, core, loop)
    # uvloop can't hurry, and asyncio's hurry may lose a connection that is cancelled in the moment in which it stands
    in_a_hurry = isinstance(loop, asyncio.BaseEventLoop) and _may_have_several_addresses(host)
    hurry: dict[str, Any] = {"happy_eyeballs_delay": _NEXT_ADDRESS_S} if in_a_hurry else {}
    if context is not None:
        context.set_alpn_protocols(["http/1.1"])
    try:
        async with asyncio.timeout(timeout):
            _, stream = await loop.create_connection(made, host, port, ssl=context, **hurry)
    except TimeoutError as exc:
        raise core.ConnectTimeout(str(exc)) from None
    except (OSError, UnicodeError) as exc:  # the latter for names that can't be any host's
        raise core.ConnectError(str(exc) or type(exc).__name__) from None
    with contextlib.suppress(OSError):  # macOS: the server has closed it already, which reading will tell
        for option in options:
            stream.get_extra_info("socket").setsockopt(*option)
    return stream


def _may_have_several_addresses(host: str) -> bool:
    """Whether it is the name of another machine."""
    with contextlib.suppress(ValueError):
        ipaddress.ip_address(host)
        return False
    return host != "localhost"


class NetworkStream(asyncio.Protocol):
    """What `httpcore.AsyncHTTP11Connection` reads from and writes to: one task, one thing at a time.

    >>> stream = await connect(httpcore, "127.0.0.1", 8000)
    >>> await stream.write(b"GET / HTTP/1.0\\r\\n\\r\\n", timeout=10)
    >>> await stream.read(65536, timeout=60)
    """

    _transport: asyncio.Transport

    def __init__(self, core: ModuleType, loop: asyncio.AbstractEventLoop) -> None:
        self._core = core
        self._loop = loop
        self._unread = bytearray()
        self._unsent = bytearray()
        self._listening = True
        self._full = False
        self._ended = False
        self._closed = False
        self._error: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None
        #: When the waiter gives up, and with what. The timer rings at that time or earlier: it outlives most waiters.
        self._deadline = 0.0
        self._too_late: type[Exception] = TimeoutError
        self._timer: asyncio.TimerHandle | None = None

    # what httpcore calls

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """What has come, or comes next; nothing at the end. Raises `ReadTimeout` or `ReadError`."""
        if self._unsent and not self._transport.is_closing():
            self._transport.write(self._unsent)
            self._unsent = bytearray()
        unread = self._unread
        if not unread and not self._ended:
            await self._wait(timeout, self._core.ReadTimeout)
        data = bytes(unread[:max_bytes])
        del unread[:max_bytes]
        if not self._listening and not unread:
            self._listening = True
            self._transport.resume_reading()
        if not data and (self._error or self._closed):
            raise self._core.ReadError(str(self._error or "the connection was closed here")) from self._error
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send with what is written next, when the answer is awaited; at once what is large.

        Raises `WriteTimeout` where the server takes no more for so long, and `WriteError`.
        """
        self._unsent += buffer
        if len(self._unsent) < MOST_UNSENT:
            return
        whole, self._unsent = memoryview(self._unsent), bytearray()
        for start in range(0, len(whole), MOST_UNSENT):  # TLS would take it all, and say that it has been sent
            if not self._transport.is_closing():
                self._transport.write(whole[start : start + MOST_UNSENT])
            while self._full and not self._ended:
                await self._wait(timeout, self._core.WriteTimeout)
            if self._transport.is_closing():
                raise self._core.WriteError(str(self._error or "the connection is closed")) from self._error

    async def aclose(self) -> None:
        """Close at once, also in the middle of something."""
        self._closed = True
        self._transport.abort()

    def get_extra_info(self, info: str) -> Any:
        """`ssl_object`, `socket`, `client_addr`, `server_addr`; `is_readable`: something has come, or the end."""
        if info != "is_readable":
            return self._transport.get_extra_info(_NAMES.get(info, info))
        return bool(self._unread) or self._ended or self._transport.is_closing() or self._has_come()

    # what asyncio calls

    def connection_made(self, transport: Any) -> None:
        """The connection stands."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """A piece has come."""
        self._unread += data
        if len(self._unread) > MOST_UNREAD and self._listening:
            self._listening = False
            self._transport.pause_reading()
        self._wake()

    def eof_received(self) -> None:
        """The server has said all. The transport closes itself."""
        self._ended = True
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is closed, `exc` says why if it was not on purpose."""
        self._ended, self._error = True, exc
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

    async def _wait(self, timeout: float | None, too_late: type[Exception]) -> None:
        """Wait for the next thing that asyncio calls."""
        self._waiter = self._loop.create_future()
        if timeout is not None:
            self._deadline, self._too_late = self._loop.time() + timeout, too_late
            if self._timer is None or self._timer.when() > self._deadline:
                self._set_timer()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(self._deadline, self._ring)

    def _ring(self) -> None:
        self._timer = None
        if self._waiter is None:
            return
        if self._loop.time() < self._deadline:
            self._set_timer()
        elif not self._waiter.done():
            self._waiter.set_exception(self._too_late())

    def _has_come(self) -> bool:
        """Whether there is something that the event loop has had no time yet to look at."""
        with getattr(selectors, "PollSelector", selectors.SelectSelector)() as selector:
            selector.register(self._transport.get_extra_info("socket"), selectors.EVENT_READ)
            return bool(selector.select(0))
