"""The events of a run: a fixed set of small dataclasses, which cells, panels and plain Python all consume.

Each event has `type`, `content` (always a string), `tool_name`, `tool_arguments` and `metadata`, as attributes and as
items (`event["type"]`). `to_dict()` returns exactly these five fields. `metadata` contains `run_id` and, where they
apply, `call_id`, `tool_call_id`, `is_error` and `duration_s`. The last event is `done`, or `error` if the run failed.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, Mapping, Sequence, ValuesView
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from nbagent.core.http_exchange import Exchange
from nbagent.core.messages import LLMMessage, LLMResponse, Usage
from nbagent.core.model_request import Timing
from nbagent.core.results import AgentResult, ToolOutcome

KEYS = ("type", "content", "tool_name", "tool_arguments", "metadata")
_NONE: Mapping[str, Any] = {}


@dataclass(slots=True)
class Event:
    """The base class of events. Each event is also a mapping of its five main fields."""

    type: ClassVar[str] = ""
    content: str = ""
    tool_name: str | None = None
    tool_arguments: dict[str, Any] | None = None
    #: Events of one request may share it: treat it as read-only.
    metadata: Mapping[str, Any] = field(default_factory=lambda: _NONE)

    def __getitem__(self, key: str) -> Any:
        if key not in KEYS:
            raise KeyError(f"{key!r}: expected one of {', '.join(KEYS)}")
        return getattr(self, key)

    def get(self, key: str, default: Any = None) -> Any:
        """Like `dict.get`."""
        return getattr(self, key) if key in KEYS else default

    def __contains__(self, key: object) -> bool:
        return key in KEYS

    def __iter__(self) -> Iterator[str]:
        return iter(KEYS)

    def __len__(self) -> int:
        return len(KEYS)

    def keys(self) -> tuple[str, ...]:
        """Return the names of the five fields."""
        return KEYS

    def values(self) -> ValuesView[Any]:
        """Like `dict.values`."""
        return self.to_dict().values()

    def items(self) -> ItemsView[str, Any]:
        """Like `dict.items`."""
        return self.to_dict().items()

    def to_dict(self) -> dict[str, Any]:
        """Return the five fields as a dict."""
        return {key: getattr(self, key) for key in KEYS} | {"metadata": dict(self.metadata)}


Mapping.register(Event)  # not a base class: that would slow down `isinstance` for every event


@dataclass(slots=True)
class RunStarted(Event):
    """A run starts. `content` is the prompt. `messages` are the system message and the prompt's new messages. `after`
    is the message before the new ones, or None at the start of a conversation.
    """

    type: ClassVar[Literal["run_started"]] = "run_started"
    messages: Sequence[LLMMessage] = ()
    after: LLMMessage | None = None


@dataclass(slots=True)
class TurnStarted(Event):
    """A request goes to the model, with `messages` and the definitions of the `tools` on offer.

    `metadata`: call_id, step, message_id of the answer, provider, model, n_messages_in, the options in effect
    (thinking_level, tool_choice and params), and the reminder if there is one. `timing` is filled in while the request
    is sent.
    """

    type: ClassVar[Literal["turn_started"]] = "turn_started"
    messages: Sequence[LLMMessage] = ()
    tools: Sequence[Mapping[str, Any]] = ()
    timing: Timing = field(default_factory=Timing)


@dataclass(slots=True)
class Thinking(Event):
    """A piece of the model's thinking."""

    type: ClassVar[Literal["thinking"]] = "thinking"


@dataclass(slots=True)
class Text(Event):
    """A piece of the answer."""

    type: ClassVar[Literal["text"]] = "text"


@dataclass(slots=True)
class ToolCallDelta(Event):
    """A piece of a tool call's arguments. `metadata`: index. `tool_name` is None until the name is known."""

    type: ClassVar[Literal["tool_call_delta"]] = "tool_call_delta"


@dataclass(slots=True)
class ToolCall(Event):
    """A tool call in a complete answer. `metadata`: tool_call_id, index."""

    type: ClassVar[Literal["tool_call"]] = "tool_call"


@dataclass(slots=True)
class ToolStarted(Event):
    """The tool's function is about to run."""

    type: ClassVar[Literal["tool_started"]] = "tool_started"


@dataclass(slots=True)
class ToolPrinted(Event):
    """A running tool printed or displayed something in a notebook. `outputs` is the tool's complete output so far.

    Only observers, such as panels, receive this event. The reader of a stream gets the output with the `tool_result`.
    """

    type: ClassVar[Literal["tool_printed"]] = "tool_printed"
    outputs: Sequence[Mapping[str, str]] = ()


@dataclass(slots=True)
class ToolProgress(Event):
    """A running tool reports its progress (`RunContext.report`). `content` is a percentage, such as "40 %", or text
    from the tool.

    `metadata`: tool_call_id; progress, a number from 0 to 1, if the tool reported one.
    """

    type: ClassVar[Literal["tool_progress"]] = "tool_progress"


@dataclass(slots=True)
class ChildEvent(Event):
    """An event from an agent that a running tool called. `event` comes from that agent's run, or from a run that it
    started in turn.

    `metadata` describes the tool call. Only observers receive this event, on this run's thread.
    """

    type: ClassVar[Literal["child"]] = "child"
    event: Event = field(kw_only=True)


@dataclass(slots=True)
class CellChanged(Event):
    """A running tool changed or ran a cell of a notebook. `content` is the kind of change and the cell's id, such as
    "edit 3f2a".

    `before` and `after` are the cell's source before and after the change. `before` is None for a new cell, and `after`
    is None for a deleted one. Only observers receive this event.
    """

    type: ClassVar[Literal["cell_changed"]] = "cell_changed"
    cell: str = field(kw_only=True)
    kind: str = field(kw_only=True)
    before: str | None = None
    after: str | None = None
    outputs_hash: str | None = None


@dataclass(slots=True)
class ToolResult(Event):
    """The result of a tool call. `content` is the text for the model, and `message` is the message in the history.

    `outputs` is the tool's printed and displayed output in a notebook.
    """

    type: ClassVar[Literal["tool_result"]] = "tool_result"
    outcome: ToolOutcome | None = None
    message: LLMMessage | None = None
    outputs: Sequence[Mapping[str, str]] = ()


@dataclass(slots=True)
class ValidationError(Event):
    """The arguments of the model's tool call, or the model's answer, did not pass a check. `content` is the feedback
    for the model.

    If the arguments don't fit the tool, a `tool_result` follows. If there is no `tool_name`, the answer was rejected,
    and the model answers again.
    """

    type: ClassVar[Literal["validation_error"]] = "validation_error"


@dataclass(slots=True)
class Approval(Event):
    """A person's decision on a call: "approved", "edited" or "denied", or "allowed" if the person allowed such calls
    earlier in the session.
    """

    type: ClassVar[Literal["approval"]] = "approval"


@dataclass(slots=True)
class UsageReport(Event):
    """The token usage of a complete answer or, if `estimated`, of an answer that broke off or was stopped.

    `metadata`: the fields of `Usage`, if known; cost_usd, replayed, and estimated.
    """

    type: ClassVar[Literal["usage"]] = "usage"

    @property
    def usage(self) -> Usage:
        """The token counts; zeros if unknown."""
        return Usage(**{name: self.metadata.get(name) or 0 for name in Usage.__slots__})


@dataclass(slots=True)
class Retry(Event):
    """The request is sent again. Discard the turn's text and thinking. `metadata`: attempt, wait_s, discard_chars.

    If the metadata contains `next` ("provider:model"), the request failed, and another model continues with a
    `turn_started` event.
    """

    type: ClassVar[Literal["retry"]] = "retry"


@dataclass(slots=True)
class Context(Event):
    """The history was trimmed, summarised or repaired, or can't be sent in full. `content` says what happened.

    `messages` are the messages that were removed. `metadata`: `trimmed`, the `message_id`s of these messages in the
    trace; `begins`, true when summarising starts.
    """

    type: ClassVar[Literal["context"]] = "context"
    messages: Sequence[LLMMessage] = ()


@dataclass(slots=True)
class Limit(Event):
    """A limit ends the run. `content` describes the limit in a sentence, and `metadata["limit_reason"]` is its name."""

    type: ClassVar[Literal["limit"]] = "limit"


@dataclass(slots=True)
class Http(Event):
    """Either a note in `content`, such as "loading the model", or an `exchange` for a trace that records HTTP.

    For an exchange, `metadata` contains attempt, method, url, status, duration_s, request_bytes, response_bytes and
    error_type. For a note that a provider's own tool is running, it contains the wire_id of the `ToolCall` that
    follows.
    """

    type: ClassVar[Literal["http"]] = "http"
    exchange: Exchange | None = None


@dataclass(slots=True)
class Interrupted(Event):
    """The run was cancelled. `content` is the text so far. `messages` are added to the history to complete it."""

    type: ClassVar[Literal["interrupted"]] = "interrupted"
    messages: Sequence[LLMMessage] = ()


@dataclass(slots=True)
class TurnDone(Event):
    """A complete answer arrived. `content` is its text, and `message` is the message in the history.

    `metadata`: finish_reason, cost_usd, and a note about the origin of the answer if readers should know it.
    """

    type: ClassVar[Literal["turn_done"]] = "turn_done"
    response: LLMResponse | None = None
    message: LLMMessage | None = None


@dataclass(slots=True)
class Done(Event):
    """The run is over. `content` is the final answer. If the run timed out, `messages` are added to the history to
    complete it.
    """

    type: ClassVar[Literal["done"]] = "done"
    result: AgentResult = field(default_factory=AgentResult)
    messages: Sequence[LLMMessage] = ()


@dataclass(slots=True)
class Error(Event):
    """The run failed. `chat` raises `exception`, and `content` is its text. `messages` are added to the history to
    complete it.
    """

    type: ClassVar[Literal["error"]] = "error"
    exception: BaseException = field(kw_only=True)
    messages: Sequence[LLMMessage] = ()


#: Every event of a run: `event.type == "done"` tells type checkers that it is a `Done`.
AnyEvent = (
    RunStarted
    | TurnStarted
    | Thinking
    | Text
    | ToolCallDelta
    | ToolCall
    | ToolStarted
    | ToolPrinted
    | ToolProgress
    | ChildEvent
    | CellChanged
    | ToolResult
    | ValidationError
    | Approval
    | UsageReport
    | Retry
    | Context
    | Limit
    | Http
    | Interrupted
    | TurnDone
    | Done
    | Error
)
