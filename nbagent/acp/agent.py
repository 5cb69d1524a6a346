"""`ACPAgent`: what the Agent Client Protocol asks of an agent. Each session is a fork of the agent."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import acp
from acp import schema

from nbagent.acp.content import parts_of, stop_reason, title_of, updates_of
from nbagent.agent.agent import Agent
from nbagent.core import events
from nbagent.core.current import current
from nbagent.core.messages import FunctionCall, new_id
from nbagent.core.render.arguments import arguments_text
from nbagent.core.results import AgentResult
from nbagent.errors import ConfigurationError, NbagentError
from nbagent.functions.allowances import Allow, Allowances
from nbagent.functions.asking import Question
from nbagent.functions.preview import PreviewedCall
from nbagent.functions.registry import FunctionDefinition
from nbagent.upgrade import VERSION

#: What a person can say to a call, by the id of the option.
_OPTIONS: dict[str, tuple[str, schema.PermissionOptionKind, Any]] = {
    "allow": ("Allow", "allow_once", True),
    "allow_tool": ("Allow this tool for the session", "allow_always", Allow.TOOL),
    "reject": ("Reject", "reject_once", False),
}


@dataclass
class _Session:
    """A conversation with a client. `running` are its prompts that are being answered."""

    agent: Agent
    folder: str
    running: set[asyncio.Task[AgentResult]] = field(default_factory=set)


class ACPAgent:
    """Answers the requests of one client. The SDK calls the methods by the names of the protocol's messages."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._sessions: dict[str, _Session] = {}

    def on_connect(self, conn: acp.Client) -> None:
        """Take the connection on which the client is told, and asked."""
        self._client = conn

    async def initialize(self, protocol_version: int, **_: Any) -> schema.InitializeResponse:
        """Say what this agent can do."""
        prompts = schema.PromptCapabilities(image=True, audio=False, embedded_context=True)
        servers = schema.McpCapabilities(http=True, sse=False)
        return schema.InitializeResponse(
            protocol_version=acp.PROTOCOL_VERSION,
            agent_capabilities=schema.AgentCapabilities(prompt_capabilities=prompts, mcp_capabilities=servers),
            agent_info=schema.Implementation(name="nbagent", title="nbagent", version=VERSION),
            auth_methods=[],
        )

    async def new_session(
        self, cwd: str, mcp_servers: Sequence[Any] | None = None, **_: Any
    ) -> schema.NewSessionResponse:
        """Begin a conversation. The client's MCP servers give it more tools."""
        agent = self._agent.fork()
        agent.tool_executor = agent.tool_executor.with_options()
        agent.tool_executor.allowances = Allowances()
        session_id = new_id("session")
        if agent.tool_executor.approver is None:
            agent.tool_executor.approver = _Approver(self._client, session_id)
        if mcp_servers:
            agent.use(*(_mcp_server(each, cwd) for each in mcp_servers))
        self._sessions[session_id] = _Session(agent, cwd)
        return schema.NewSessionResponse(session_id=session_id)

    async def prompt(self, session_id: str, prompt: Sequence[Any], **_: Any) -> schema.PromptResponse:
        """Answer a prompt, and tell the client all that happens meanwhile."""
        session = self._session(session_id)
        try:
            running = asyncio.create_task(self._answer(session_id, session, parts_of(prompt)))
        except ConfigurationError as error:
            raise acp.RequestError(-32602, str(error)) from None
        session.running.add(running)
        try:
            await asyncio.wait({running})
        finally:  # the client has gone
            running.cancel()
            session.running.discard(running)
        if running.cancelled():
            return schema.PromptResponse(stop_reason="cancelled")
        if (failure := running.exception()) is not None:
            if not isinstance(failure, NbagentError):
                raise failure
            raise acp.RequestError(-32602 if isinstance(failure, ConfigurationError) else -32603, str(failure))
        return schema.PromptResponse(stop_reason=stop_reason(running.result()))

    async def cancel(self, session_id: str, **_: Any) -> None:
        """Stop answering. What the agent said so far stays."""
        if (session := self._sessions.get(session_id)) is not None:
            for running in session.running:
                running.cancel()

    async def aclose(self) -> None:
        """End the sessions, and close their connections."""
        for session in self._sessions.values():
            await session.agent.aclose()
        await self._agent.aclose()

    async def _answer(self, session_id: str, session: _Session, parts: list[dict[str, Any]]) -> AgentResult:
        folder = f"The user works in the folder {session.folder}"
        stream = session.agent.chat_stream(parts, instructions=folder, origin={"source": "acp"})
        async with aclosing(aiter(stream)) as running:
            async for event in running:
                for update in updates_of(event):
                    await self._client.session_update(session_id, update)
                if isinstance(event, events.Limit):
                    await self._client.session_update(session_id, acp.update_agent_message_text(f"\n{event.content}"))
        return stream.result()

    def _session(self, session_id: str) -> _Session:
        if (session := self._sessions.get(session_id)) is None:
            raise acp.RequestError(-32602, f"There is no session {session_id!r}. Begin one with session/new.")
        return session


class _Approver:
    """Asks the client's user about a call."""

    def __init__(self, client: acp.Client, session_id: str) -> None:
        self._client = client
        self._session_id = session_id

    async def __call__(self, call: FunctionCall, definition: FunctionDefinition) -> Any:
        if isinstance(call, Question):  # asks for more than a yes
            return None
        shown = call.preview.to_text() if isinstance(call, PreviewedCall) else arguments_text(call.arguments)
        asked = schema.ToolCallUpdate(
            tool_call_id=current.get().call.tool_call_id or new_id("tool"),
            title=title_of(call.name, call.arguments),
            status="pending",
            raw_input=call.arguments,
            content=[acp.tool_content(acp.text_block(shown))],
        )
        options = [
            schema.PermissionOption(option_id=option_id, name=name, kind=kind)
            for option_id, (name, kind, _) in _OPTIONS.items()
        ]
        answer = await self._client.request_permission(self._session_id, asked, options)
        if isinstance(answer.outcome, schema.AllowedOutcome) and answer.outcome.option_id in _OPTIONS:
            return _OPTIONS[answer.outcome.option_id][2]
        return None


def _mcp_server(given: Any, folder: str) -> Any:
    """A server of the client's configuration as a toolset. Raises a `RequestError` for one that can't be used."""
    try:
        from nbagent.mcp.client.server import MCPServer

        if isinstance(given, schema.McpServerStdio):
            environment = {each.name: each.value for each in given.env}
            return MCPServer(given.command, *given.args, name=given.name, env=environment, cwd=folder)
        if isinstance(given, schema.HttpMcpServer):
            return MCPServer(given.url, name=given.name, headers={each.name: each.value for each in given.headers})
    except (ModuleNotFoundError, NbagentError) as error:
        raise acp.RequestError(-32602, f"The MCP server {given.name!r} can't be used: {error}") from None
    raise acp.RequestError(-32602, f"The MCP server {given.name!r} can't be used: only stdio and http are.")
