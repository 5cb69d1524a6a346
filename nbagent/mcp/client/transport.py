"""Transports to a server: its process with stdin, stdout and stderr, or an HTTP client."""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from typing import Any

from nbagent.mcp.client.address import Address

#: How many of the last lines of stderr are kept, and how much of each.
MAX_LINES, MAX_LINE_CHARS = 8, 300
#: Seconds to wait for the last lines of a server that has ended. Its child process may keep stderr open.
LAST_LINES_S = 5.0
#: Seconds to connect, and for the next byte of an HTTP response, which may be a stream.
CONNECT_S, READ_S = 30.0, 300.0


class Ended:
    """The end of a connection. `event` is set when the server is gone, and `details` describes how it ended."""

    def __init__(self) -> None:
        self.event = asyncio.Event()
        self.status: int | None = None
        self.lines: deque[str] = deque(maxlen=MAX_LINES)
        #: Set when stderr is closed; None for a server without one.
        self._stderr_closed: asyncio.Event | None = None

    def stderr(self) -> Any:
        """Return a file for the server's stderr. Its last lines are kept."""
        read, write = os.pipe()
        self._stderr_closed = asyncio.Event()
        on_close = partial(asyncio.get_running_loop().call_soon_threadsafe, self._stderr_closed.set)
        threading.Thread(target=self._read, args=(read, on_close), name="nbagent-mcp-stderr", daemon=True).start()
        return os.fdopen(write, "w")

    def _read(self, descriptor: int, on_close: Callable[[], object]) -> None:
        with open(descriptor, encoding="utf-8", errors="replace") as file:
            for line in iter(lambda: file.readline(MAX_LINE_CHARS), ""):
                if line.strip():
                    self.lines.append(line.rstrip())
        with suppress(RuntimeError):  # the loop is closed
            on_close()

    async def details(self) -> str:
        """The last lines of stderr, or the status of the last HTTP response if it was an error."""
        if self._stderr_closed is not None:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stderr_closed.wait(), LAST_LINES_S)
        if self.lines:
            return "It wrote:\n" + "\n".join(f"  {line}" for line in self.lines)
        if self.status == 401:
            return (
                "It responded with HTTP status 401: it needs a token or a login. Pass MCPServer(…, "
                'headers={"Authorization": "Bearer …"}), or auth=OAuthClientProvider(…) from mcp.client.auth.'
            )
        return f"It responded with HTTP status {self.status}." if self.status else ""


@asynccontextmanager
async def process_of(address: Address, ended: Ended) -> AsyncIterator[Any]:
    """Start the server's process. At the end of the block, its stdin is closed. If it doesn't exit then, it is killed.

    The process inherits only a few of its parent's environment variables (PATH, HOME, …). The address's `env` adds
    others.
    """
    import anyio
    from mcp import StdioServerParameters, stdio_client

    program, *arguments = address.command
    parameters = StdioServerParameters(command=program, args=arguments, env=dict(address.env), cwd=address.cwd)
    async with AsyncExitStack() as stack:
        with ended.stderr() as stderr:
            inner, write = await stack.enter_async_context(stdio_client(parameters, stderr))
        send, read = anyio.create_memory_object_stream[Any](0)

        async def forward() -> None:
            async with send:
                with suppress(anyio.BrokenResourceError):
                    async for message in inner:
                        await send.send(message)
            ended.event.set()

        async with anyio.create_task_group() as group:
            group.start_soon(forward)
            yield read, write
            group.cancel_scope.cancel()


@asynccontextmanager
async def http_to(address: Address, ended: Ended) -> AsyncIterator[Any]:
    """Connect over HTTP. Redirects to other hosts are not followed, so the headers go only to this server."""
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    async def note_status(response: Any) -> None:
        ended.status = response.status_code if response.status_code >= 400 else None

    client = httpx2.AsyncClient(
        headers=dict(address.headers),
        auth=address.auth,
        timeout=httpx2.Timeout(CONNECT_S, read=READ_S),
        event_hooks={"response": [note_status]},
    )
    async with client, streamable_http_client(address.url, http_client=client) as streams:
        yield streams
