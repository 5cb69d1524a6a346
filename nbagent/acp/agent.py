"""`ACPAgent`: what the Agent Client Protocol asks of an agent. Each session is a fork of the agent, and a conversation
of the store, so a client can open it again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, unquote

import acp
from acp import schema

from nbagent.acp.content import context_update, parts_of, replayed, stop_reason, title_of, updates_of, usage_of
from nbagent.agent.agent import Agent
from nbagent.core import events
from nbagent.core.current import context_with, current
from nbagent.core.limits import Account
from nbagent.core.messages import FunctionCall, Usage, new_id
from nbagent.core.render.arguments import arguments_text
from nbagent.core.results import AgentResult
from nbagent.errors import ConfigurationError, NbagentError
from nbagent.functions.allowances import Allow, Allowances
from nbagent.functions.asking import Question
from nbagent.functions.preview import PreviewedCall
from nbagent.functions.registry import FunctionDefinition
from nbagent.pricing import context_window
from nbagent.providers import resolve
from nbagent.server.conversations.store import Conversation, ConversationStore, Spent
from nbagent.upgrade import VERSION

#: Who owns the sessions in the store, which may have the conversations of a server as well.
_OWNER = "acp"

#: What a person can say to a call, by the id of the option.
_OPTIONS: dict[str, tuple[str, schema.PermissionOptionKind, Any]] = {
    "allow": ("Allow", "allow_once", True),
    "allow_tool": ("Allow this tool for the session", "allow_always", Allow.TOOL),
    "reject": ("Reject", "reject_once", False),
}


@dataclass
class _Session:
    """A conversation with a client.

    - `problems`: what the client is told before the next answer
    - `usage`: the tokens since this process opened it
    - `running`: its prompts that are being answered
    - `updated`: when what the agent knows of the conversation was stored
    """

    agent: Agent
    folder: str
    model: str
    problems: list[str] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    running: set[asyncio.Task[AgentResult]] = field(default_factory=set)
    updated: float = 0.0

    def take(self, stored: Conversation) -> None:
        """Go on from what is stored."""
        messages = self.agent.context.messages
        messages[:] = [*(message for message in messages if message.role == "system"), *stored.messages]
        self.updated = stored.updated


class ACPAgent:
    """Answers the requests of one client. The SDK calls the methods by the names of the protocol's messages.

    `models` are those that a client may choose besides the agent's own, such as "openai:gpt-5.6-luna".
    """

    def __init__(self, agent: Agent, store: ConversationStore, models: Sequence[str] = ()) -> None:
        self._agent = agent
        self._store = store
        self._models = list(dict.fromkeys([f"{agent.provider.vendor}:{agent.provider.model_name}", *models]))
        self._sessions: dict[str, _Session] = {}
        self._replays = True

    def on_connect(self, conn: acp.Client) -> None:
        """Take the connection on which the client is told, and asked."""
        self._client = conn

    async def initialize(
        self, protocol_version: int, client_info: schema.Implementation | None = None, **_: Any
    ) -> schema.InitializeResponse:
        """Say what this agent can do."""
        # Jupyter AI keeps its own chats and would show replayed messages a second time
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
        """Begin a conversation. The client's MCP servers give it more tools."""
        # the store has no place for the folder, which `session/list` needs
        session_id = f"{new_id('session')}@{quote(cwd)}"
        session = self._begin(session_id, cwd, mcp_servers)
        return schema.NewSessionResponse(session_id=session_id, config_options=self._options_of(session))

    async def load_session(
        self, cwd: str, session_id: str, mcp_servers: Sequence[Any] | None = None, **_: Any
    ) -> schema.LoadSessionResponse:
        """Open a conversation again, and tell the client what was said in it."""
        session = self._sessions.get(session_id)
        if session is None:
            found = await self._store.get(_OWNER, session_id)
            if found is None:
                raise _no_session(session_id)
            session = self._begin(session_id, cwd, mcp_servers)
            session.problems.clear()  # the client was told of them when it began
            session.take(found)
        messages = session.agent.conversation_history
        for update in replayed(messages) if self._replays else ():
            await self._client.session_update(session_id, update)
        return schema.LoadSessionResponse(config_options=self._options_of(session))

    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None, **_: Any
    ) -> schema.ListSessionsResponse:
        """List the conversations, newest first; `cwd` selects one folder."""
        try:
            page = await self._store.page(_OWNER, after=cursor)
        except ConfigurationError as error:
            raise acp.RequestError(-32602, str(error)) from None
        found = [
            schema.SessionInfo(
                session_id=each.id,
                cwd=folder,
                title=each.title,
                updated_at=datetime.fromtimestamp(each.updated, UTC).isoformat(),
            )
            for each in page.conversations
            if (folder := unquote(each.id.partition("@")[2])) and cwd in (None, folder)
        ]
        return schema.ListSessionsResponse(sessions=found, next_cursor=page.next)

    async def set_config_option(
        self, config_id: str, session_id: str, value: str | bool, **_: Any
    ) -> schema.SetSessionConfigOptionResponse:
        """Choose the model of a conversation."""
        session = self._session(session_id)
        if config_id != "model" or value not in self._models:
            choices = ", ".join(self._models)
            raise acp.RequestError(-32602, f"There is no {config_id} {value!r}. Choose a model of: {choices}.")
        try:
            session.agent.provider = self._agent.provider if value == self._models[0] else resolve(str(value))
        except ConfigurationError as error:
            raise acp.RequestError(-32602, str(error)) from None
        session.model = str(value)
        return schema.SetSessionConfigOptionResponse(config_options=self._options_of(session))

    def _begin(self, session_id: str, folder: str, mcp_servers: Sequence[Any] | None) -> _Session:
        agent = self._agent.fork()
        agent.context.here.conversation_id = session_id
        agent.tool_executor = agent.tool_executor.with_options()
        agent.tool_executor.allowances = Allowances()
        if agent.tool_executor.approver is None:
            agent.tool_executor.approver = _Approver(self._client, session_id)
        session = self._sessions[session_id] = _Session(agent, folder, self._models[0])
        for each in mcp_servers or ():
            try:
                agent.use(_mcp_server(each, folder))
            except (ModuleNotFoundError, NbagentError) as error:
                session.problems.append(f"The MCP server {each.name!r} can't be used: {error}")
        return session

    def _options_of(self, session: _Session) -> list[Any]:
        """The choice of a model, as the protocol has it."""
        choices = [schema.SessionConfigSelectOption(name=name, value=name) for name in self._models]
        model = schema.SessionConfigOptionSelect(
            id="model",
            name="Model",
            category="model",
            type="select",
            current_value=session.model,
            options=choices,
        )
        return [model]

    async def prompt(self, session_id: str, prompt: Sequence[Any], **_: Any) -> schema.PromptResponse:
        """Answer a prompt, and tell the client all that happens meanwhile."""
        session = self._session(session_id)
        try:
            account = Account()
            answering = self._answer(session_id, session, parts_of(prompt), account)
            running = asyncio.create_task(answering, context=context_with(account=account))
        except ConfigurationError as error:
            raise acp.RequestError(-32602, str(error)) from None
        session.running.add(running)
        running.add_done_callback(session.running.discard)
        try:
            await asyncio.wait({running})
        finally:  # the client has gone
            running.cancel()
            session.usage += account.usage
        usage = usage_of(session.usage)
        if running.cancelled():
            return schema.PromptResponse(stop_reason="cancelled", usage=usage)
        if (failure := running.exception()) is not None:
            if not isinstance(failure, NbagentError):
                raise failure
            raise acp.RequestError(-32602 if isinstance(failure, ConfigurationError) else -32603, str(failure))
        return schema.PromptResponse(stop_reason=stop_reason(running.result()), usage=usage)

    async def cancel(self, session_id: str, **_: Any) -> None:
        """Stop answering. What the agent said so far stays."""
        if (session := self._sessions.get(session_id)) is not None:
            for running in session.running:
                running.cancel()

    async def aclose(self) -> None:
        """End the sessions, save what they are about to say, and close their connections."""
        for session in self._sessions.values():
            if session.running:
                await asyncio.wait(session.running)
            await session.agent.aclose()
        await self._agent.aclose()

    async def _answer(
        self, session_id: str, session: _Session, parts: list[dict[str, Any]], account: Account
    ) -> AgentResult:
        """Answer, tell the client what happens, and save the session, whatever ends it."""
        agent = session.agent

        async def tell(update: Any) -> None:
            await self._client.session_update(session_id, update)

        for problem in session.problems:
            await tell(acp.update_agent_message_text(f"*{problem}*\n\n"))
        session.problems.clear()
        async with self._store.turn(_OWNER, session_id) as turn:
            before = turn.conversation.spent.dollars if turn.conversation else 0.0
            if turn.conversation and turn.conversation.updated != session.updated:  # another process went on with it
                session.take(turn.conversation)
            size = context_window(agent.provider)
            folder = f"The user works in the folder {session.folder}"
            stream = agent.chat_stream(parts, instructions=folder, origin={"source": "acp"})
            try:
                async with aclosing(aiter(stream)) as running:
                    async for event in running:
                        for update in updates_of(event):
                            await tell(update)
                        if isinstance(event, events.UsageReport) and size is not None:
                            await tell(context_update(event.usage, size, before + account.dollars))
                return stream.result()
            finally:
                messages = [message for message in agent.conversation_history if message.role != "system"]
                if messages or turn.conversation:
                    spent = Spent(account.dollars, account.usage.total_tokens)
                    await self._store.save(_OWNER, spent, turn=turn, messages=messages)
                    session.updated = turn.conversation.updated if turn.conversation else 0.0

    def _session(self, session_id: str) -> _Session:
        if (session := self._sessions.get(session_id)) is None:
            raise _no_session(session_id)
        return session


def _no_session(session_id: str) -> acp.RequestError:
    return acp.RequestError(-32602, f"There is no session {session_id!r}. Begin one with session/new.")


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
    """A server of the client's configuration as a toolset."""
    from nbagent.mcp.client.server import MCPServer

    if isinstance(given, schema.McpServerStdio):
        environment = {each.name: each.value for each in given.env}
        return MCPServer(given.command, *given.args, name=given.name, env=environment, cwd=folder)
    if isinstance(given, schema.HttpMcpServer):
        return MCPServer(given.url, name=given.name, headers={each.name: each.value for each in given.headers})
    raise ConfigurationError("Only stdio and http are supported.")
