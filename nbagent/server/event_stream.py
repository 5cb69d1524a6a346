"""Server-sent events, and responses that are cancelled when the client disconnects."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, aclosing, suppress
from time import monotonic
from typing import Any, Generic, TypeVar

from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from nbagent.core.json_text import json_text

T = TypeVar("T")

MEDIA_TYPE = "text/event-stream"
#: After this many seconds of silence, a comment is sent, so that proxies keep the connection open.
SILENCE_S = 15.0
#: Many clients treat these as line ends, as `str.splitlines` does. JSON can escape them.
_LINE_ENDS = {ord(end): f"\\u{ord(end):04x}" for end in "\x85\u2028\u2029"}
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


def sse(data: Any, event: str | None = None) -> str:
    r"""Return one event with JSON data.

    >>> sse({"type": "text", "content": "Hi"}, "text")
    'event: text\ndata: {"type": "text", "content": "Hi"}\n\n'
    """
    return f"{f'event: {event}' + chr(10) if event else ''}data: {json_text(data).translate(_LINE_ENDS)}\n\n"


async def while_connected(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of `work`. If the client disconnects, cancel the work and raise `ClientDisconnect`."""
    working = asyncio.create_task(work)
    leaving = asyncio.create_task(_left(receive))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        return working.result()
    finally:
        leaving.cancel()
        working.cancel()
        await asyncio.wait({working, leaving})


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class EventStream(Response, Generic[T]):
    """A response with server-sent events. The context manager `run` is entered when the response starts and exited when
    the response ends.

    `write(run)` yields the text of the stream in pieces. An error before the first piece becomes an error response.
    """

    media_type = MEDIA_TYPE

    def __init__(self, run: AbstractAsyncContextManager[T], write: Callable[[T], AsyncGenerator[str]]) -> None:
        super().__init__(headers=_HEADERS)
        del self.headers["content-length"]
        self._run = run
        self._write = write

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream until it ends or the client disconnects."""
        with suppress(ClientDisconnect):
            await while_connected(receive, self._send(send))

    async def _send(self, send: Send) -> None:
        """Send the pieces. Pieces that are ready at the same time are sent together."""
        ready: list[str] = []
        has_more, has_begun, last = asyncio.Event(), False, monotonic()

        async def write() -> None:
            async with self._run as run, aclosing(self._write(run)) as pieces:
                async for piece in pieces:
                    ready.append(piece)
                    has_more.set()

        async def break_silence() -> None:
            nonlocal last
            while True:
                await asyncio.sleep(last + SILENCE_S - monotonic())
                if monotonic() >= last + SILENCE_S:
                    last = monotonic()
                    ready.append(": waiting\n\n")
                    has_more.set()

        writing, commenting = asyncio.create_task(write()), asyncio.create_task(break_silence())
        writing.add_done_callback(lambda _: has_more.set())
        try:
            while ready or not writing.done():
                await has_more.wait()
                has_more.clear()
                last = monotonic()
                if ready:
                    body = "".join(ready).encode()
                    ready.clear()
                    if not has_begun:
                        has_begun = True
                        start = {"type": "http.response.start", "status": self.status_code}
                        await send({**start, "headers": self.raw_headers})
                    await send({"type": "http.response.body", "body": body, "more_body": True})
            writing.result()
        finally:
            commenting.cancel()
            writing.cancel()
            await asyncio.wait({writing})
        await send({"type": "http.response.body", "body": b"", "more_body": False})
