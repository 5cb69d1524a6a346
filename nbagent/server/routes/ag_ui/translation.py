"""Translates the events of a run to AG-UI events (https://docs.ag-ui.com/concepts/events).

Each answer from the model becomes one AG-UI message, identified by the `call_id` of the model request. The agent's tool
calls are reported with their results; the client never runs a tool.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any, Literal

from ag_ui import core as ag_ui

from nbagent.agent.plan import plan_in
from nbagent.core import events
from nbagent.core.messages import LLMMessage
from nbagent.core.results import AgentResult
from nbagent.server.routes.ag_ui.messages import shown_call

#: The key of nbagent's additions to the client's state and to event metadata.
OURS = "nbagent"
Kind = Literal["thinking", "text"]
#: An event. The many pieces of an answer are created as JSON directly.
AgUiEvent = ag_ui.BaseEvent | dict[str, Any]
_CONTENT = {"thinking": ag_ui.EventType.REASONING_MESSAGE_CONTENT, "text": ag_ui.EventType.TEXT_MESSAGE_CONTENT}
_NO_RESULT = "The run ended before this call had a result."


class Translation:
    """Translates a run's events to AG-UI events, and keeps track of the client's messages.

    `messages` are the client's earlier messages. A run that waits for a person spans several requests. Each request
    starts with a call to `begin` and ends with `interrupted`, with `failed`, or with `translate` for the event `Done`.
    """

    def __init__(self, thread_id: str, model: str, messages: Sequence[ag_ui.Message]) -> None:
        self.messages: list[Any] = list(messages)
        self._thread_id, self._model = thread_id, model
        self._run_id = ""
        self._state: Any = None
        self._call_id = ""
        #: The kind of message being streamed, and this answer's messages with their pieces so far.
        self._streaming: Kind | None = None
        self._growing: dict[Kind, tuple[Any, list[str]]] = {}
        #: Calls without a result: the client's id -> the id in the history.
        self._open_calls: dict[str, str | None] = {}

    def begin(self, run_id: str, state: Any) -> Iterator[AgUiEvent]:
        """Yield the first events for a client's request, given the client's state."""
        self._run_id, self._state = run_id, state
        yield from self.snapshots("running")

    def shown(self, run_id: str, state: Any) -> Iterator[AgUiEvent]:
        """Send the conversation at the client's request, without a run."""
        self._run_id, self._state = run_id, state
        yield from self.snapshots("idle")
        yield self._finished(ag_ui.RunFinishedSuccessOutcome())

    def snapshots(self, status: str, **facts: Any) -> Iterator[AgUiEvent]:
        """Send the current messages and state. The client's own entries in its state are kept."""
        self._fill()
        yield ag_ui.MessagesSnapshotEvent(messages=[message.model_copy() for message in self.messages])
        yield from self._state_of(status, **facts)

    def _state_of(self, status: str, **facts: Any) -> Iterator[AgUiEvent]:
        """The client's state including ours. The plan remains until there is a new one."""
        if self._state is None or isinstance(self._state, dict):
            before = (self._state or {}).get(OURS)
            plan = {"plan": before["plan"]} if isinstance(before, dict) and "plan" in before else {}
            ours = {"conversation_id": self._thread_id, "model": self._model, "status": status, **plan, **facts}
            self._state = {**(self._state or {}), OURS: ours}
            yield ag_ui.StateSnapshotEvent(snapshot=self._state)

    def interrupted(self, interrupts: list[ag_ui.Interrupt]) -> Iterator[AgUiEvent]:
        """End the request while the run waits for a person's decisions. They arrive with the next request."""
        yield from self.snapshots("waiting", waiting_for=[interrupt.id for interrupt in interrupts])
        yield self._finished(ag_ui.RunFinishedInterruptOutcome(interrupts=interrupts))

    def failed(self, message: str, code: str | None = None) -> Iterator[AgUiEvent]:
        """Yield the last events of a failed run. Earlier output is kept."""
        yield from self._stream(None)
        yield from self._close_calls(())
        yield from self.snapshots("error")
        yield ag_ui.RunErrorEvent(message=message, code=code)

    def _finished(self, outcome: Any, **more: Any) -> ag_ui.RunFinishedEvent:
        return ag_ui.RunFinishedEvent(thread_id=self._thread_id, run_id=self._run_id, outcome=outcome, **more)

    def translate(self, event: events.AnyEvent) -> Iterator[AgUiEvent]:
        """Yield the AG-UI events for an event of the run."""
        match event:
            case events.TurnStarted():
                yield from self._stream(None)
                self._fill()
                self._call_id, self._growing = str(event.metadata["call_id"]), {}
            case events.Thinking():
                yield from self._add("thinking", event.content)
            case events.Text():
                yield from self._add("text", event.content)
            case events.Retry() | events.ValidationError(tool_name=None):  # sent again, or sent back
                yield from self._discard()
            case events.ToolCall():
                yield from self._call(event)
            case events.ToolResult():
                yield from self._result(event)
            case events.TurnDone():
                yield from self._stream(None)
            case events.Done():
                yield from self._done(event)

    def _fill(self) -> None:
        """Add the streamed text to the messages. Adding each piece would copy a long text each time."""
        for kind, (message, pieces) in self._growing.items():
            message.content = "".join(pieces) or (None if kind == "text" else "")

    def _message(self, kind: Kind) -> Any:
        """The message of this answer with its thinking, or with its text and calls."""
        if kind not in self._growing:
            name = self._id(kind)
            made = (
                ag_ui.ReasoningMessage(id=name, content="") if kind == "thinking" else ag_ui.AssistantMessage(id=name)
            )
            self.messages.append(made)
            self._growing[kind] = made, []
        return self._growing[kind][0]

    def _id(self, kind: Kind) -> str:
        return self._call_id if kind == "text" else f"{self._call_id}_thinking"

    def _add(self, kind: Kind, piece: str) -> Iterator[AgUiEvent]:
        message = self._message(kind)
        self._growing[kind][1].append(piece)
        yield from self._stream(kind)
        yield {"type": _CONTENT[kind], "messageId": message.id, "delta": piece}

    def _stream(self, kind: Kind | None) -> Iterator[AgUiEvent]:
        """Switch to streaming another kind of message. The client appends to a message that it already has."""
        if kind == self._streaming:
            return
        before, self._streaming = self._streaming, kind
        if before == "thinking":
            yield ag_ui.ReasoningMessageEndEvent(message_id=self._id(before))
            yield ag_ui.ReasoningEndEvent(message_id=self._id(before))
        elif before == "text":
            yield ag_ui.TextMessageEndEvent(message_id=self._id(before))
        if kind == "thinking":
            yield ag_ui.ReasoningStartEvent(message_id=self._id(kind))
            yield ag_ui.ReasoningMessageStartEvent(message_id=self._id(kind))
        elif kind == "text":
            yield ag_ui.TextMessageStartEvent(message_id=self._id(kind), role="assistant")

    def _discard(self) -> Iterator[AgUiEvent]:
        """Retract the text with a snapshot that omits it, since another answer follows.

        Clients keep any thinking that a snapshot omits, so this one contains it empty, and the next attempt adds to it.
        """
        yield from self._stream(None)
        if not self._growing:
            return
        if "text" in self._growing:
            self.messages.remove(self._growing.pop("text")[0])
        for _, pieces in self._growing.values():
            pieces.clear()
        yield from self.snapshots("running")

    def _call(self, event: events.ToolCall) -> Iterator[AgUiEvent]:
        yield from self._stream(None)
        name, call_id = event.tool_name or "", str(event.metadata["tool_call_id"])
        call, answer = shown_call(call_id, name, event.tool_arguments), self._message("text")
        answer.tool_calls = [*(answer.tool_calls or ()), call]
        self._open_calls[call_id] = event.metadata.get("wire_id")
        yield ag_ui.ToolCallStartEvent(tool_call_id=call_id, tool_call_name=name, parent_message_id=answer.id)
        yield ag_ui.ToolCallArgsEvent(tool_call_id=call_id, delta=call.function.arguments)
        yield ag_ui.ToolCallEndEvent(tool_call_id=call_id)

    def _result(self, event: events.ToolResult) -> Iterator[AgUiEvent]:
        metadata = {key: event.metadata.get(key) for key in ("is_error", "duration_s")}
        yield self._answered(str(event.metadata["tool_call_id"]), event.content, metadata)
        if plan := plan_in(event):
            yield from self._state_of("running", plan=[asdict(step) for step in plan])

    def _answered(self, call_id: str, content: str, metadata: dict[str, Any]) -> AgUiEvent:
        self._open_calls.pop(call_id, None)
        name = f"{call_id}_result"
        error = content if metadata["is_error"] else None
        self.messages.append(ag_ui.ToolMessage(id=name, tool_call_id=call_id, content=content, error=error))
        return ag_ui.ToolCallResultEvent(
            message_id=name, tool_call_id=call_id, content=content, role="tool", metadata={OURS: metadata}
        )

    def _close_calls(self, closing: Sequence[LLMMessage]) -> Iterator[AgUiEvent]:
        """Send a result for every open call: from the messages that completed the history, else a note."""
        results = {message.tool_call_id: message.text for message in closing if message.role == "tool"}
        for call_id, wire_id in list(self._open_calls.items()):
            yield self._answered(call_id, results.get(wire_id, _NO_RESULT), {"is_error": True})

    def _done(self, event: events.Done) -> Iterator[AgUiEvent]:
        result = event.result
        yield from self._stream(None)
        yield from self._close_calls(event.messages)
        facts = {"limit_reason": result.limit_reason, "status_reason": result.status_reason}
        known = {key: fact for key, fact in facts.items() if fact is not None}
        yield from self.snapshots(result.status, trace_id=result.run_id, **known)
        value = {"content": result.content, "status": result.status, **known}
        yield self._finished(ag_ui.RunFinishedSuccessOutcome(), result=value, usage=[self._usage(result)])

    def _usage(self, result: AgentResult) -> ag_ui.TokenUsage:
        usage = result.usage
        return ag_ui.TokenUsage(
            model=self._model,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            total_tokens=usage.total_tokens,
            reasoning_tokens=usage.reasoning_tokens,
            cached_input_tokens=usage.cache_read_tokens,
            cache_write_input_tokens=usage.cache_write_tokens,
        )
