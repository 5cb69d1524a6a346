"""The connection to one server. It runs on the background loop, regardless of the loops that its agents use.

The connection keeps a registry in sync with the server's tools, restarts a dead server once, and ends when `stop` is
called or the interpreter exits. It has no reference to its `MCPServer`, which can therefore be garbage-collected.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import logging
import math
import os
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from contextvars import Context
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakSet

from nbagent.core.background import background_loop
from nbagent.core.current import current
from nbagent.core.tool_output import ToolOutput
from nbagent.errors import MCPServerError, ToolError
from nbagent.functions.elicitation import CallInProgress
from nbagent.mcp.client import elicitation
from nbagent.mcp.client.address import Address
from nbagent.mcp.client.results import value_of
from nbagent.mcp.client.tool_list import MAX_TEXT, ToolList
from nbagent.mcp.client.transport import Ended, http_to, process_of
from nbagent.text import shortened
from nbagent.version import VERSION

if TYPE_CHECKING:
    from mcp import Client

logger = logging.getLogger("nbagent")
T = TypeVar("T")

#: Seconds for a server to list its tools. `npx` may have to download it first.
START_S = 60.0
#: The same if `auth` may ask a person to log in.
LOGIN_S = 600.0
#: Seconds for a server to return a resource or a prompt.
ANSWER_S = 60.0
#: Seconds for a server to end at the interpreter's exit: the protocol's grace period, then it is killed.
EXIT_S = 6.0
#: Seconds before listening for changes again, if the server ended the stream.
LISTEN_AGAIN_S = 5.0
#: Seconds after a failed request to find out whether the whole connection failed.
NOTICE_S = 1.0


class Connection:
    """The connection to one server; the module's docstring describes it. `state` describes the connection for display.
    `problem` is the error that makes the server unusable at the moment.
    """

    def __init__(self, name: str, address: Address, tools: ToolList) -> None:
        self.name, self.address, self.tools = name, address, tools
        self.state = "not connected"
        self.problem: MCPServerError | None = None
        #: Why the server was restarted, or "".
        self.restarted = ""
        #: The protocol's revision ("2026-07-28"), the server's own name, and its instructions.
        self.revision = self.server = self.instructions = ""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._client: Client | None = None
        #: Set once the server is usable or has failed. Replaced when a connection starts or is lost.
        self._settled = asyncio.Event()
        self._is_stopped = False
        self._stop: Callable[[], None] = lambda: None
        self._lost: Callable[[], None] = lambda: None
        self._calls: list[CallInProgress | None] = []

    # -- from any thread and any event loop ---------------------------------------------------------------------------

    def begin(self) -> None:
        """Connect in the background, unless already connected or connecting."""
        _note(self)
        background_loop().call_soon_threadsafe(self._begin, context=Context())

    async def ready(self) -> None:
        """Wait until the server has listed its tools. Raises MCPServerError if the server can't be used."""
        _note(self)
        await _on_background(self._ready)

    async def call(self, tool: str, arguments: dict[str, Any]) -> Any:
        """Call a tool. If the caller is cancelled, the call is cancelled on the server. Raises ToolError with the
        server's error.
        """
        state = current.get()
        return await _on_background(lambda: self._call(tool, arguments, state.call_in_progress, state.call.output))

    async def ask(self, request: Callable[[Client], Coroutine[Any, Any, T]]) -> T:
        """Send a request other than a tool call. Raises MCPServerError with the server's error."""
        _note(self)
        return await _on_background(lambda: self._ask(request))

    async def aclose(self) -> None:
        """End the connection and the server's process."""
        await _on_background(self._end)

    def stop(self) -> None:
        """End the connection without waiting. This acquires no lock, since garbage collection may call it."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stop_now)

    # -- on the background loop ---------------------------------------------------------------------------------------

    def _begin(self) -> None:
        if self._task is None or self._task.done():
            self._settled, self.problem, self.state = asyncio.Event(), None, "connecting"
            self._is_stopped = False
            self._loop = asyncio.get_running_loop()
            self._task = self._loop.create_task(self._run(), context=Context())

    async def _ready(self) -> Client:
        self._begin()
        await self._settled.wait()
        if self._client is None:
            raise self.problem or MCPServerError(f"The MCP server {self.name!r} was closed.")
        return self._client

    def _stop_now(self) -> None:
        self._is_stopped = True
        self._stop()

    async def _end(self) -> None:
        self._stop_now()
        if self._task is not None:
            await asyncio.wait({self._task})

    async def _run(self) -> None:
        """Connect, and reconnect once if the server dies."""
        while True:
            was_restarted = bool(self.restarted)
            problem, was_connected = await self._connect()
            self._note_lost()
            self._stop = lambda: None
            if problem is not None and was_connected and not was_restarted:
                logger.warning("%s It is restarted.", problem)
                self.restarted, self.state = str(problem), "restarting"
                continue
            self.problem, self.restarted = problem, ""
            self.state = "failed" if problem else "closed"
            self._settled.set()
            return

    async def _connect(self) -> tuple[MCPServerError | None, bool]:
        """Connect, and wait for the end. Returns the reason for the end (None if this side closed it), and whether it
        was connected.
        """
        # the imports take a second, which must not block the loop
        await asyncio.to_thread(__import__, "mcp.client.streamable_http")
        import anyio

        ended, connected = Ended(), False
        scope = anyio.CancelScope()
        self._stop, self._lost = scope.cancel, ended.event.set
        if self._is_stopped:  # while mcp was imported
            scope.cancel()
        reason, details = "it ended", ""
        with scope:
            try:
                with anyio.fail_after(_start_s(self.address)) as starting:
                    async with self._open(ended) as client:
                        await self.tools.update(client, self.call)
                        starting.deadline, connected = math.inf, True
                        self._note_connected(client)
                        await self._follow(client, ended)
            except Exception as error:
                logger.debug("the connection to the MCP server %s failed", self.name, exc_info=True)
                reason = _reason(error, self.address)
            details = await ended.details()
        if scope.cancelled_caught:
            return None, connected
        what = "was connected, and then" if connected else "can't be used:"
        text = f"The MCP server {self.name!r} ({self.address.shown()}) {what} {reason}. {details}"
        return MCPServerError(self.address.masked(shortened(text, MAX_TEXT)).rstrip()), connected

    def _open(self, ended: Ended) -> AbstractAsyncContextManager[Client]:
        import_module("nbagent.core.json_schema")  # imports jsonschema faster than mcp would with the first result
        from mcp import Client
        from mcp_types import ElicitRequestParams, ElicitResult, Implementation, ToolListChangedNotification

        async def on_message(message: Any) -> None:
            if isinstance(message, ToolListChangedNotification):
                self.tools.changed.set()

        async def on_elicitation(context: Any, params: ElicitRequestParams) -> ElicitResult:
            # the revisions of 2025 don't link a question to its call, so the latest call is assumed
            call = current.get().call_in_progress or next(reversed(self._calls), None)
            return await elicitation.ask(self.name, params, call)

        return Client(
            (http_to if self.address.url else process_of)(self.address, ended),
            client_info=Implementation(name="nbagent", version=VERSION),
            message_handler=on_message,
            elicitation_callback=on_elicitation,
        )

    def _note_connected(self, client: Client) -> None:
        info = client.server_info
        self.server = f"{info.name} {info.version}" if info else ""
        self.revision, self.instructions = client.protocol_version, client.instructions or ""
        self.state, self.problem, self._client = "connected", None, client
        self._settled.set()

    def _note_lost(self) -> None:
        """Let calls wait until the server is connected again."""
        if self._client is not None:
            self._client, self._settled = None, asyncio.Event()

    async def _follow(self, client: Client, ended: Ended) -> None:
        """Keep the list of tools up to date until the connection ends."""
        import anyio

        async def update() -> None:
            while True:
                await self.tools.changed.wait()
                self.tools.changed.clear()
                await self.tools.update(client, self.call)

        async with anyio.create_task_group() as group:
            group.start_soon(update)
            group.start_soon(self._listen, client)
            await ended.event.wait()
            self._note_lost()
            group.cancel_scope.cancel()

    async def _listen(self, client: Client) -> None:
        """Subscribe to changes in a server with the stateless revision. Other servers report changes without a
        subscription.
        """
        from mcp import MCPError
        from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost

        tools = client.server_capabilities.tools
        while tools is not None and tools.list_changed:
            try:
                async with client.listen(tools_list_changed=True) as changes:
                    self.tools.changed.set()  # earlier changes are not reported
                    async for _ in changes:
                        self.tools.changed.set()
            except (ListenNotSupportedError, MCPError):
                return
            except (SubscriptionLost, TimeoutError):
                logger.debug("the MCP server %s stopped reporting changes", self.name)
            await asyncio.sleep(LISTEN_AGAIN_S)

    async def _call(
        self, tool: str, arguments: dict[str, Any], call: CallInProgress | None, output: ToolOutput | None
    ) -> Any:
        from mcp import MCPError

        async def show(progress: float, total: float | None, message: str | None) -> None:
            if output is not None:
                output.report(_progress_text(progress, total, message))

        if self.problem is not None:  # only another run tries again
            raise ToolError(str(self.problem), tool=tool)
        client = await self._ready()
        self._calls.append(call)
        try:
            return value_of(await client.call_tool(tool, arguments, progress_callback=show), tool)
        except MCPError as error:
            text = await self._what_happened(client, error)
        except (ToolError, RuntimeError, ValueError) as error:  # such as a result that does not fit the tool's schema
            text = str(error)
        finally:
            self._calls.remove(call)
        raise ToolError(self.address.masked(shortened(text, MAX_TEXT)), tool=tool)

    async def _ask(self, request: Callable[[Client], Coroutine[Any, Any, T]]) -> T:
        from mcp import MCPError

        client = await self._ready()
        try:
            async with asyncio.timeout(ANSWER_S):
                return await request(client)
        except MCPError as error:
            text: str = error.error.message
        except TimeoutError:
            text = f"it did not respond within {ANSWER_S:g} s"
        except (RuntimeError, ValueError) as error:  # a response that violates the protocol
            text = str(error)
        raise MCPServerError(self.address.masked(shortened(f"The MCP server {self.name!r}: {text}", MAX_TEXT)))

    async def _what_happened(self, client: Client, error: Any) -> str:
        """Describe an error. If the server is gone, wait for its restart and say so."""
        from mcp_types import CONNECTION_CLOSED, INVALID_REQUEST

        text: str = error.error.message
        if error.code == INVALID_REQUEST and text == "Session terminated":  # it was restarted and has lost the session
            self._lost()
        elif error.code != CONNECTION_CLOSED:
            return text
        for _ in range(10):
            if self._client is not client:
                break
            await asyncio.sleep(NOTICE_S / 10)
        if self._client is client:
            return text
        await self._settled.wait()
        if self._client is None:
            return str(self.problem or f"The MCP server {self.name!r} was closed.")
        return f"{self.restarted} It was restarted. The call may have had an effect, and was not repeated."


async def _on_background(make: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Await a coroutine on the background loop, in a copy of this context. Cancellation is passed on."""
    loop = background_loop()
    if asyncio.get_running_loop() is loop:
        return await make()
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(make(), loop))


def _start_s(address: Address) -> float:
    return START_S if address.auth is None else LOGIN_S


def _reason(error: BaseException, address: Address) -> str:
    """The reason why a server can't be used."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, FileNotFoundError) and address.command:
        return f"there is no program {address.command[0]!r}: install it, or pass its path"
    if isinstance(error, TimeoutError):
        return f"it did not list its tools within {_start_s(address):g} s"
    text = str(error).strip().rstrip(".")
    if text == "Connection closed":
        return "it ended before it responded"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _progress_text(progress: float, total: float | None, message: str | None) -> str:
    """
    >>> _progress_text(3, 10, "reading"), _progress_text(3, None, None)
    ('3/10 reading', '3')
    """
    count = f"{progress:g}/{total:g}" if total else f"{progress:g}"
    return " ".join(filter(None, (count, shortened(message or "", 200).replace("\n", " "))))


# -- the interpreter's exit -------------------------------------------------------------------------------------------

_open: WeakSet[Connection] = WeakSet()


def _note(connection: Connection) -> None:
    """End the server with this process."""
    _open.add(connection)
    _end_at_exit()


@cache
def _end_at_exit() -> None:
    background_loop()  # exit handlers run in reverse order, so this one runs before the loop ends
    atexit.register(_end_all, os.getpid())


def _end_all(pid: int) -> None:
    if pid != os.getpid():  # a forked process does not own the servers
        return
    ending = [asyncio.run_coroutine_threadsafe(connection._end(), background_loop()) for connection in list(_open)]
    concurrent.futures.wait(ending, timeout=EXIT_S)
