"""`ToolServer`: offers an agent's tools and the live tools through the official MCP `Server`. The tools are looked up
for each request. Each call is a run of the agent. In the agent's trace, the run's `source` is the client's name, such
as "mcp-client:editor".
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterable
from contextlib import aclosing, nullcontext
from dataclasses import dataclass
from typing import Any

import anyio
import mcp_types as types
from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.shared.exceptions import MCPError

from nbagent.agent.agent import Agent
from nbagent.core import events
from nbagent.core.current import context_with
from nbagent.core.messages import FunctionCall
from nbagent.core.render.control_chars import show_all_chars
from nbagent.core.threads import run_in_thread
from nbagent.errors import UnknownToolError
from nbagent.functions.approval import approver_of, ask_approver
from nbagent.functions.executor import ToolExecutor
from nbagent.functions.live import live
from nbagent.functions.registry import FunctionDefinition, FunctionRegistry, JoinedRegistry
from nbagent.mcp.server.results import as_result, as_tool
from nbagent.text import shortened
from nbagent.version import VERSION

log = logging.getLogger("nbagent")

#: The server's instructions for clients.
INSTRUCTIONS = (
    "The tools are functions in a running Python process, often a Jupyter notebook, and can use its variables. "
    "The user may redefine them at any time."
)
#: How many sessions of clients before 2026-07-28 are notified of changes. The latest ones are kept.
MAX_SESSIONS = 100
#: Seconds for a cancelled call to end.
CANCELLED_WITHIN_S = 2.0
STOPPED = "The call was stopped by the user of the notebook. Do not repeat it; ask how to continue."
WAITING_FOR_APPROVAL = "waiting for a person to approve this call"


@dataclass(frozen=True, slots=True)
class ClientRequest:
    """A client's tool call. `context` is the `mcp` package's context, which has the client's session, and `params` are
    the call's parameters.

    With this object, a tool can ask the client a question or report progress. The tool may also return an
    `InputRequiredResult`; when the client calls again, the answers are in `params.input_responses`.

    >>> async def report() -> str:
    ...     "Report progress to the client."
    ...     await current.get().client_request.context.session.report_progress(1, 3)
    """

    context: ServerRequestContext[Any, Any]
    params: types.CallToolRequestParams


def _is_provider_tool(registry: FunctionRegistry, name: str) -> bool:
    tool = registry.get_function(name)
    return tool is not None and tool.provider_options is not None


class ToolServer:
    """Serves the tools of `agent` and `nbagent.live`, or only the tools in `only`. No model is called.

    `server` is the official `Server`, to be run by a transport. Everything runs on one event loop. Raises
    ConfigurationError if `only` has an unknown name.
    """

    def __init__(self, agent: Agent, *, only: Iterable[str] | None = None, agent_name: str | None = None) -> None:
        self.agent = agent
        self.only = None if only is None else list(only)
        self._agent_name = agent_name
        self._bus = InMemorySubscriptionBus()
        self.listening = ListenHandler(self._bus)
        self.server = _AnnouncingServer(
            "nbagent",
            version=VERSION,
            instructions=INSTRUCTIONS,
            cache_hints={"tools/list": CacheHint(ttl_ms=0, scope="private")},
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_subscriptions_listen=self.listening,
        )
        # a tool's state that the client keeps between two rounds comes back unchanged or not at all
        state = RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience=self.server.name)
        self.server.middleware.append(state)
        self.server.add_notification_handler("notifications/initialized", types.NotificationParams, self._initialized)
        #: Sessions of clients before 2026-07-28, to notify of changes.
        self._sessions: deque[ServerSession] = deque(maxlen=MAX_SESSIONS)
        self._calls: set[asyncio.Task[Any]] = set()
        self._one_at_a_time = asyncio.Lock()
        if self.only is not None:
            self._joined().only(self.only)  # raises for an unknown name
        self._known = self._tools()

    def registry(self) -> FunctionRegistry:
        """The tools that are offered now."""
        joined = self._joined()
        names = [name for name in joined.names() if self.only is None or name in self.only]
        off = self.agent.tools_off
        return joined.only([name for name in names if name not in off and not _is_provider_tool(joined, name)])

    def _joined(self) -> FunctionRegistry:
        return JoinedRegistry(self.agent.function_registry, live)

    def _tools(self) -> list[types.Tool]:
        registry = self.registry()
        return [as_tool(tool) for name in registry.names() if (tool := registry.get_function(name)) is not None]

    async def _list_tools(
        self, request: ServerRequestContext[Any, Any], params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        await self._prepare()
        return types.ListToolsResult(tools=self._tools())

    async def _prepare(self) -> None:
        """Let the toolsets connect and check for changes. If one fails, the other tools are still offered."""
        try:
            await self.agent.toolsets.prepare()
        except Exception:
            log.warning("a toolset can't be prepared for MCP clients", exc_info=True)

    async def _initialized(self, request: ServerRequestContext[Any, Any], params: types.NotificationParams) -> None:
        self._sessions.append(request.session)

    async def notify_changes(self) -> None:
        """Notify the clients if tools were added, removed or changed since the last notification."""
        tools = self._tools()
        if tools == self._known:
            return
        self._known = tools
        await self._bus.publish(ToolsListChanged())
        for session in list(self._sessions):  # a closed session ignores this
            await session.send_tool_list_changed()

    async def _call_tool(
        self, request: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        """Run the call in its own task, because this request may be cancelled repeatedly."""
        context = context_with(client_request=ClientRequest(request, params))
        call = FunctionCall(params.name, params.arguments or {})
        task = asyncio.create_task(self._run(request, call), context=context)
        self._calls.add(task)
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            task.cancel()
            with anyio.CancelScope(shield=True):
                await asyncio.wait({task}, timeout=CANCELLED_WITHIN_S)
            raise
        finally:
            self._calls.discard(task)
        if task.cancelled():
            raise MCPError(types.INTERNAL_ERROR, STOPPED)
        return task.result()

    async def _run(
        self, request: ServerRequestContext[Any, Any], call: FunctionCall
    ) -> types.CallToolResult | types.InputRequiredResult:
        progress = _Progress(request.session)
        await self._prepare()
        executor = self._executor(progress)
        origin = {"source": _source(request), "agent": self._agent_name, "cell_id": None, "execution_count": None}
        steps = self.agent.run_call(call, executor, origin)
        result: events.ToolResult | None = None
        async with nullcontext() if executor.is_parallel(call.name) else self._one_at_a_time, aclosing(steps):
            async for event in steps:
                if isinstance(event, events.ToolProgress) and event.content:
                    progress.report(event.content)
                result = event if isinstance(event, events.ToolResult) else result
        await self.notify_changes()
        assert result is not None
        assert result.outcome is not None
        error = result.outcome.error
        if isinstance(error, UnknownToolError):
            raise MCPError(types.INVALID_PARAMS, str(error))
        if isinstance(error, MCPError):  # a tool may raise the protocol's own errors
            raise error
        return await run_in_thread(as_result, result.outcome, result.outputs)  # a large frame takes time

    def _executor(self, progress: _Progress) -> ToolExecutor:
        """The agent's executor for the offered tools, which informs the client when a person is asked."""
        executor = self.agent.tool_executor.with_options(timeout=self.agent.limits.tool_seconds)
        approver = approver_of(executor.approver)

        async def ask(call: FunctionCall, definition: FunctionDefinition) -> Any:
            progress.report(WAITING_FOR_APPROVAL)
            return await ask_approver(approver, call, definition)

        executor.registry, executor.approver = self.registry(), ask
        return executor

    async def cancel_calls(self) -> int:
        """Stop the running calls, wait for them to end, and return their number."""
        tasks = set(self._calls)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=CANCELLED_WITHIN_S)
        return len(tasks)


class _AnnouncingServer(Server[Any]):
    """Declares that the list of tools may change, which the package leaves to each transport."""

    def create_initialization_options(
        self, notification_options: NotificationOptions | None = None, *others: Any, **options: Any
    ) -> InitializationOptions:
        notifications = notification_options or NotificationOptions(tools_changed=True)
        return super().create_initialization_options(notifications, *others, **options)


class _Progress:
    """Reports the progress of a call to a client that wants it. The protocol requires a rising number."""

    def __init__(self, session: ServerSession) -> None:
        self._session = session
        self._count = 0
        self._tasks: set[asyncio.Task[None]] = set()

    def report(self, message: str) -> None:
        """Report what the call does or waits for."""
        self._count += 1
        task = asyncio.ensure_future(self._session.report_progress(self._count, None, message))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _source(request: ServerRequestContext[Any, Any]) -> str:
    """The caller's name in the trace: `mcp-client:` and the client's own name."""
    params = request.session.client_params
    name = show_all_chars(params.client_info.name) if params else ""
    return f"mcp-client:{shortened(name, 60)}".rstrip(":")
