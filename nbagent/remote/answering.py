"""`Answering`: one run of an agent on a server. The question goes there, and the run's events are repeated here.

The history here follows the server's: each request to the model tells all of it. A conversation goes on at the server
as long as both have the same messages; otherwise the history here is sent along with the question, and begins another.
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, fields
from typing import Any

from nbagent.core.event_json import SharedMessages, event_from_json, json_data
from nbagent.core.events import (
    AnyEvent,
    Approval,
    ChildEvent,
    Done,
    Error,
    Event,
    Http,
    Retry,
    RunStarted,
    Text,
    ToolResult,
    TurnDone,
    TurnStarted,
    UsageReport,
)
from nbagent.core.history.repair import missing_result
from nbagent.core.history.saved import as_data
from nbagent.core.messages import FunctionCall, LLMMessage, new_id
from nbagent.core.run import Run
from nbagent.errors import (
    BadRequestError,
    ConfigurationError,
    IncompleteStreamError,
    InvalidResponseError,
    ProviderError,
    ToolDeniedError,
)
from nbagent.functions.allowances import Allow, as_key
from nbagent.functions.approval import approver_of, ask_approver
from nbagent.functions.executor import ToolExecutor
from nbagent.functions.registry import FunctionDefinition
from nbagent.remote.connection import Connection

log = logging.getLogger("nbagent")

#: The options of requests that a server takes.
OPTIONS = ("temperature", "max_tokens", "thinking", "tool_choice")
#: What of the server's result is not counted here.
_TAKEN = ("content", "function_calls", "finish_reason", "status", "limit_reason", "status_reason", "images", "metadata")
_ID = re.compile(r"[A-Za-z0-9_.:-]{1,128}")


@dataclass
class Mirror:
    """A conversation on the server: its id, and the messages that both ends have, also by the server's names."""

    conversation_id: str
    messages: list[LLMMessage]
    names: dict[str, LLMMessage]


@dataclass
class Answering:
    """What `Run.answer` is for a remote agent. `mirrors` and `asked` are the agent's, for all of its runs."""

    connection: Connection
    run: Run
    executor: ToolExecutor
    mirrors: dict[str, Mirror]
    asked: dict[str, FunctionDefinition]
    _shared: SharedMessages = field(default_factory=SharedMessages)
    _conversation_id: str = ""
    #: The definitions of the tools on offer, by name.
    _tools: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    #: Of the turn: the answer so far, the whole answer, and the results of its calls by their index.
    _text: list[str] = field(default_factory=list)
    _message: LLMMessage | None = None
    _results: dict[int, LLMMessage] = field(default_factory=dict)
    #: Where the results stand in the history.
    _start: int = 0
    #: The questions to the person here.
    _asking: set[asyncio.Task[None]] = field(default_factory=set)

    async def events(self, prompt: Sequence[LLMMessage]) -> AsyncGenerator[Event]:
        """Ask the server, and repeat the run's events. Raises what ended the run there."""
        try:
            async with aclosing(self.connection.events("/agent/runs", self._request(prompt))) as items:
                async for item in items:
                    if isinstance(item, Retry):  # of this request, not of one to a model
                        yield self.run.emit(Http(item.content))
                        continue
                    if (event := self._read(item, prompt)) is None:
                        continue
                    if isinstance(event, Done):
                        self._finish(event)
                        return
                    if isinstance(event, Error):
                        self._close(event.messages)
                        raise event.exception
                    if isinstance(event, ChildEvent):  # only observers get it
                        self.run.emit(event)
                    elif self._is_told(event):
                        yield self.run.emit(event)
            raise IncompleteStreamError("the server's answer ended before the run was over", vendor="nbagent server")
        except BaseException:
            if not self.run.closing_messages:
                self._close(self._cut_off())
            raise
        finally:
            for task in self._asking:
                task.cancel()

    # -- the question -------------------------------------------------------------------------------------------------

    def _request(self, prompt: Sequence[LLMMessage]) -> dict[str, Any]:
        """The body of the request."""
        run, context, question = self.run, self.run.context, prompt[-1]
        if question.role != "user":
            raise ConfigurationError("A remote agent answers questions: the last message must be one of role 'user'.")
        for name in run.options:
            if name not in OPTIONS:
                raise ConfigurationError(f"A remote agent takes no option {name!r}. It takes {', '.join(OPTIONS)}.")
        limits = {each.name: getattr(run.limits, each.name) for each in fields(run.limits)}
        body: dict[str, Any] = {
            "message": question.content,
            "instructions": "\n\n".join(filter(None, (context.system_message, run.instructions))),
            "limits": {name: value for name, value in limits.items() if value is not None and value != math.inf},
            "options": dict(run.options),
            "waits_for_approval": approver_of(self.executor.approver) is not None,
        }
        before = [message for message in context.messages[:-1] if message.role != "system"]
        mirror = self.mirrors.get(context.conversation_id)
        self._shared.known = {message.message_id: message for message in before if message.message_id}
        if mirror is not None and before and _same(mirror.messages, before):
            self._shared.known |= mirror.names
            body["conversation_id"] = mirror.conversation_id
        elif before:
            body["history"] = [self._named(message) for message in before]
        data: dict[str, Any] = json_data(body)
        return data

    def _named(self, message: LLMMessage) -> dict[str, Any]:
        """A message with an id, by which the server's events refer to it."""
        message_id = message.message_id or new_id("msg")
        self._shared.known[message_id] = message
        return {**as_data(message), "message_id": message_id}

    # -- the answer ---------------------------------------------------------------------------------------------------

    def _read(self, data: dict[str, Any], prompt: Sequence[LLMMessage]) -> AnyEvent | None:
        """The event as one of the run here."""
        if data.get("type") == RunStarted.type:
            with suppress(LookupError, TypeError):  # what is wrong with it is told below
                self._shared.known[data["messages"][-1]["message_id"]] = prompt[-1]
        event = event_from_json(data, self._shared)
        if event is not None:
            self._conversation_id = event.metadata.get("conversation_id", self._conversation_id)
            event.metadata = {**event.metadata, "run_id": self.run.run_id}
        return event

    def _is_told(self, event: AnyEvent) -> bool:
        """Let the history here follow, and count what was spent. Returns whether the event is repeated here."""
        run, messages = self.run, self.run.context.messages
        match event:
            case RunStarted():
                return False  # the run began here
            case Approval(content="asked"):
                self._ask(event)
                return False
            case TurnStarted():
                system = [message for message in messages if message.role == "system"]
                messages[:] = [*system, *(message for message in event.messages if message.role != "system")]
                self._tools = {tool["name"]: tool for tool in event.tools}
                self._text, self._message, self._results = [], None, {}
                run.spent.add_request()
            case Text():
                self._text.append(event.content)
            case Retry():
                self._text.clear()
            case TurnDone(message=LLMMessage() as message):
                messages.append(message)
                self._message, self._start = message, len(messages)
            case UsageReport():
                run.spent.add(event.usage, event.metadata.get("cost_usd"))
            case ToolResult(message=LLMMessage() as message):
                self._results[event.metadata.get("index", 0)] = message
                messages[self._start :] = [self._results[index] for index in sorted(self._results)]
        return True

    def _finish(self, event: Done) -> None:
        """Take over the server's result."""
        run = self.run
        for name in _TAKEN:
            setattr(run.result, name, getattr(event.result, name))
        told = {"conversation_id": self._conversation_id, "server_run_id": event.result.run_id}
        run.result.metadata = {**event.result.metadata, **told}
        self._close(event.messages)
        messages = [message for message in run.context.messages if message.role != "system"]
        kept = {id(message) for message in messages}
        names = {name: message for name, message in self._shared.known.items() if id(message) in kept}
        self.mirrors[run.context.conversation_id] = Mirror(self._conversation_id, messages, names)

    def _close(self, messages: Sequence[LLMMessage]) -> None:
        """Complete the history with these messages."""
        self.run.context.messages += messages
        self.run.closing_messages += messages

    def _cut_off(self) -> list[LLMMessage]:
        """What completes the history after a run that broke off: the text so far, or the results that are missing."""
        if self._message is not None:
            calls = self._message.tool_calls or []
            missing = [missing_result(call) for index, call in enumerate(calls) if index not in self._results]
            return [message.replace(message_id=new_id("msg")) for message in missing]
        self.run.result.content = text = "".join(self._text)
        return [LLMMessage("assistant", text, interrupted=True, message_id=new_id("msg"))] if text else []

    # -- approval -----------------------------------------------------------------------------------------------------

    def _ask(self, event: Approval) -> None:
        """Ask the person here, while the run goes on."""
        approval_id, name = event.metadata.get("approval_id"), event.tool_name or ""
        if not isinstance(approval_id, str) or not _ID.fullmatch(approval_id):
            raise InvalidResponseError("a call that needs approval has no approval_id", vendor="nbagent server")
        if name not in self.asked:
            told = self._tools.get(name, {})
            self.asked[name] = FunctionDefinition(
                name,
                str(told.get("description", "")),
                dict(told.get("parameters") or {"type": "object", "properties": {}}),
                lambda **_: None,  # it runs on the server
                approve=True,
            )
        call = FunctionCall(name, event.tool_arguments or {}, event.metadata.get("wire_id"))
        task = asyncio.create_task(self._decide(approval_id, call, self.asked[name]))
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    async def _decide(self, approval_id: str, call: FunctionCall, definition: FunctionDefinition) -> None:
        """Send the server what the person says. In doubt the answer is no."""
        decision = await self._decision(call, definition)
        path = f"/agent/approvals/{approval_id}"
        try:
            try:
                await self.connection.post(path, decision)
            except BadRequestError as error:
                if decision["decision"] == "deny":
                    raise
                await self.connection.post(path, {"decision": "deny", "reason": error.message[:1000]})
        except ProviderError as error:  # somebody else decided, or the run is over
            log.warning("the decision on %s did not count: %s", call.name, error)

    async def _decision(self, call: FunctionCall, definition: FunctionDefinition) -> dict[str, Any]:
        allowances, key = self.executor.allowances, as_key(call.arguments)
        if allowances.cover(definition.func, key):
            return {"decision": "approve"}
        try:
            answer = await ask_approver(approver_of(self.executor.approver), call, definition)
        except ToolDeniedError as error:
            return {"decision": "deny", "reason": str(error)[:1000]}
        if isinstance(answer, Allow):
            allowances.add(answer, definition.func, key)
        if isinstance(answer, dict):
            return {"decision": "approve", "arguments": json_data(answer)}
        return {"decision": "approve" if answer else "deny"}


def _same(mine: Sequence[LLMMessage], others: Sequence[LLMMessage]) -> bool:
    return len(mine) == len(others) and all(map(lambda a, b: a is b, mine, others))
