"""`ACPAgent`: serves an agent over the Agent Client Protocol.

Each session is a fork of the agent. Its conversation is stored, so a client can load it later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, unquote

import acp
from acp import schema

from nbagent.acp.content import context_update, parts_of, replayed, stop_reason, title_of, updates_of, usage_of
from nbagent.agent.agent import Agent
from nbagent.core import events
from nbagent.core.current import current
from nbagent.core.messages import FunctionCall, Usage, new_id
from nbagent.core.render.arguments import arguments_text
from nbagent.errors import ConfigurationError, NbagentError
from nbagent.functions.allowances import Allow, Allowances
from nbagent.functions.elicitation import Question
from nbagent.functions.preview import PreviewedCall
from nbagent.functions.registry import FunctionDefinition
from nbagent.pricing import context_window
from nbagent.server.agent_host import AgentHost
from nbagent.server.conversations.store import ConversationStore
from nbagent.server.hosted_run import STOPPED, HostedRun, RunRequest
from nbagent.server.problems import RefusedError
from nbagent.server.settings import ServerSettings
from nbagent.version import VERSION

#: The owner of the sessions in the store, which may also contain a server's conversations.
_OWNER = "acp"

#: The user's options for a call, by id: name, kind and decision.
_OPTIONS: dict[str, tuple[str, schema.PermissionOptionKind, Any]] = {
    "allow": ("Allow", "allow_once", True),
    "allow_tool": ("Allow this tool for the session", "allow_always", Allow.TOOL),
    "reject": ("Reject", "reject_once", False),
}


@dataclass
class _Session:
    """A conversation with a client.

    - `model`: the user's choice, or None for the agent's own
    - `problems`: messages to send to the client before the next answer
    - `usage`: tokens since this process opened the session
    """

    agent: Agent
    folder: str
    model: str | None = None
    problems: list[str] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)


class ACPAgent:
    """Handles one client's requests. For each protocol message, the SDK calls the method named after it.

    `models` lists the models that the client may choose instead of the agent's own, such as "openai:gpt-5.6-luna".
    """

    def __init__(self, agent: Agent, store: ConversationStore, models: Sequence[str] = ()) -> None:
        self._agent = agent
        self._host = AgentHost(agent, store, ServerSettings(models=models))
        self._host.owns_agent = True
        self._sessions: dict[str, _Session] = {}
        self._replays = True

    def on_connect(self, conn: acp.Client) -> None:
        """Store the connection to the client."""
        self._client = conn

    async def initialize(
        self, protocol_version: int, client_info: schema.Implementation | None = None, **_: Any
    ) -> schema.InitializeResponse:
        """Describe this agent's capabilities."""
        # Jupyter AI stores its own chats and would show replayed messages twice
        self._replays = client_info is None or client_info.name != "Jupyter AI"
        prompts = schema.PromptCapabilities(image=True, audio=False, embedded_context=True)
        servers = schema.McpCapabilities(http=True, sse=False)
        sessions = schema.SessionCapabilities(list=schema.SessionListCapabilities())
        return schema.InitializeResponse(
            protocol_version=acp.PROTOCOL_VERSION,
            agent_capabilities=schema.AgentCapabilities(
                load_session=True,
                prompt_capabilities=prompts,
                mcp_capabilities=servers,
                session_capabilities=sessions,
            ),
            agent_info=schema.Implementation(name="nbagent", title="nbagent", version=VERSION),
            auth_methods=[],
        )

    async def new_session(
        self, cwd: str, mcp_servers: Sequence[Any] | None = None, **_: Any
    ) -> schema.NewSessionResponse:
        """Start a conversation, in which the agent can also use the client's MCP servers."""
        # `session/list` needs the folder, which the store has no field for
        session_id = f"{new_id('session')}@{quote(cwd)}"
        session = self._begin(session_id, cwd, mcp_servers)
        return schema.NewSessionResponse(session_id=session_id, config_options=self._options_of(session))

    async def load_session(
        self, cwd: str, session_id: str, mcp_servers: Sequence[Any] | None = None, **_: Any
    ) -> schema.LoadSessionResponse:
        """Load a stored conversation and send its messages to the client."""
        session, stored = self._sessions.get(session_id), await self._host.store.get(_OWNER, session_id)
        if session is None:
            if stored is None:
                raise _no_session(session_id)
            session = self._begin(session_id, cwd, mcp_servers)
            session.problems.clear()  # they were reported when the conversation started
        for update in replayed(stored.messages) if stored is not None and self._replays else ():
            await self._client.session_update(session_id, update)
        return schema.LoadSessionResponse(config_options=self._options_of(session))

    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None, **_: Any
    ) -> schema.ListSessionsResponse:
        """List the conversations, most recently changed first. With `cwd`, list only the conversations started in that
        folder.
        """
        try:
            page = await self._host.store.page(_OWNER, after=cursor)
        except ConfigurationError as error:
            raise acp.RequestError(-32602, str(error)) from None
        found = [
            schema.SessionInfo(
                session_id=conversation.id,
                cwd=folder,
                title=conversation.title,
                updated_at=datetime.fromtimestamp(conversation.updated, UTC).isoformat(),
            )
            for conversation in page.conversations
            if (folder := unquote(conversation.id.partition("@")[2])) and cwd in (None, folder)
        ]
        return schema.ListSessionsResponse(sessions=found, next_cursor=page.next)

    async def set_config_option(
        self, config_id: str, session_id: str, value: str | bool, **_: Any
    ) -> schema.SetSessionConfigOptionResponse:
        """Choose the model of a conversation."""
        session = self._session(session_id)
        if config_id != "model" or value not in self._host.models:
            choices = ", ".join(self._host.models)
            raise acp.RequestError(-32602, f"There is no {config_id} {value!r}. Choose one of these: {choices}.")
        try:
            self._host.provider_for(None, str(value))
        except ConfigurationError as error:
            raise acp.RequestError(-32602, str(error)) from None
        session.model = str(value)
        return schema.SetSessionConfigOptionResponse(config_options=self._options_of(session))

    def _begin(self, session_id: str, folder: str, mcp_servers: Sequence[Any] | None) -> _Session:
        agent = self._agent.fork()
        agent.tool_executor = agent.tool_executor.with_options()
        agent.tool_executor.allowances = Allowances()
        if agent.tool_executor.approver is None:
            agent.tool_executor.approver = _Approver(self._client, session_id)
        session = self._sessions[session_id] = _Session(agent, folder)
        for server in mcp_servers or ():
            try:
                agent.use(_mcp_server(server, folder))
            except (ModuleNotFoundError, NbagentError) as error:
                session.problems.append(f"The MCP server {server.name!r} can't be used: {error}")
        return session

    def _options_of(self, session: _Session) -> list[Any]:
        """The choice of a model, as an option of the protocol."""
        choices = [schema.SessionConfigSelectOption(name=name, value=name) for name in self._host.models]
        model = schema.SessionConfigOptionSelect(
            id="model",
            name="Model",
            category="model",
            type="select",
            current_value=session.model or self._host.models[0],
            options=choices,
        )
        return [model]

    async def prompt(self, session_id: str, prompt: Sequence[Any], **_: Any) -> schema.PromptResponse:
        """Run a prompt, and send the run's events to the client as they happen."""
        session = self._session(session_id)
        for problem in session.problems:
            await self._client.session_update(session_id, acp.update_agent_message_text(f"*{problem}*\n\n"))
        session.problems.clear()
        try:
            run = await self._answer(session_id, session, parts_of(prompt))
        except RefusedError as error:
            if error.problem.code != STOPPED:
                raise acp.RequestError(-32603, str(error)) from error
            return schema.PromptResponse(stop_reason="cancelled", usage=usage_of(session.usage))
        except NbagentError as error:
            raise acp.RequestError(-32602 if isinstance(error, ConfigurationError) else -32603, str(error)) from error
        reason = stop_reason(run.result) if run.result is not None else "cancelled"
        return schema.PromptResponse(stop_reason=reason, usage=usage_of(session.usage))

    async def _answer(self, session_id: str, session: _Session, parts: list[dict[str, Any]]) -> HostedRun:
        """Run the agent and send its events to the client. Raises its errors, but not when the user stops it."""
        request = RunRequest(
            message=parts,
            conversation_id=session_id,
            instructions=f"The user works in the folder {session.folder}",
            model=session.model,
            agent=session.agent,
            origin={"source": "acp"},
        )
        async with self._host.run(_OWNER, request) as run:
            before = run.before.spent.dollars if run.before is not None else 0.0
            size = context_window(self._host.provider_for(None, session.model))
            try:
                async for event in run:
                    if isinstance(event, events.Error) and not run.is_stopped:
                        raise event.exception
                    for update in updates_of(event):
                        await self._client.session_update(session_id, update)
                    if isinstance(event, events.UsageReport) and size is not None:
                        update = context_update(event.usage, size, before + run.account.dollars)
                        await self._client.session_update(session_id, update)
            finally:
                session.usage += run.account.usage
            return run

    async def cancel(self, session_id: str, **_: Any) -> None:
        """Stop the run. The partial answer is kept."""
        self._host.stop(_OWNER, session_id)

    async def aclose(self) -> None:
        """Stop all runs, save the conversations, and close the agents' connections."""
        await self._host.aclose()
        for session in self._sessions.values():
            await session.agent.aclose()

    def _session(self, session_id: str) -> _Session:
        if (session := self._sessions.get(session_id)) is None:
            raise _no_session(session_id)
        return session


def _no_session(session_id: str) -> acp.RequestError:
    return acp.RequestError(-32602, f"There is no session {session_id!r}. Start one with session/new.")


class _Approver:
    """Asks the client's user to approve a call."""

    def __init__(self, client: acp.Client, session_id: str) -> None:
        self._client = client
        self._session_id = session_id

    async def __call__(self, call: FunctionCall, definition: FunctionDefinition) -> Any:
        if isinstance(call, Question):  # needs answers, not just an approval
            return None
        shown = call.preview.to_text() if isinstance(call, PreviewedCall) else arguments_text(call.arguments)
        update = schema.ToolCallUpdate(
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
        outcome = (await self._client.request_permission(self._session_id, update, options)).outcome
        if isinstance(outcome, schema.AllowedOutcome) and outcome.option_id in _OPTIONS:
            return _OPTIONS[outcome.option_id][2]
        return None


def _mcp_server(server: Any, folder: str) -> Any:
    """A server from the client's configuration as a toolset."""
    from nbagent.mcp.client.server import MCPServer

    if isinstance(server, schema.McpServerStdio):
        environment = {variable.name: variable.value for variable in server.env}
        return MCPServer(server.command, *server.args, name=server.name, env=environment, cwd=folder)
    if isinstance(server, schema.HttpMcpServer):
        return MCPServer(server.url, name=server.name, headers={header.name: header.value for header in server.headers})
    raise ConfigurationError("only stdio and http are supported.")
