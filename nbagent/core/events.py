"""What happens in a run, as a closed set of small dataclasses. Every surface consumes the same ones.

Each event has `type`, `content` (always a string), `tool_name`, `tool_arguments` and `metadata`, as attributes and as
items (`event["type"]`). `metadata` holds `run_id` and, where they apply, `call_id`, `tool_call_id`, `is_error`,
`duration_s`. `to_dict()` gives exactly those five. `done` is last when a run ends well or politely, `error` when it
fails.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

if TYPE_CHECKING:
    from nbagent.core.http_exchange import Exchange
    from nbagent.core.messages import LLMMessage, LLMResponse
    from nbagent.core.results import AgentResult, ToolOutcome

KEYS = ("type", "content", "tool_name", "tool_arguments", "metadata")
_NONE: Mapping[str, Any] = {}


@dataclass(slots=True)
class Event:
    """Base of all events; reads like a mapping too."""

    type: ClassVar[str] = ""
    content: str = ""
    tool_name: str | None = None
    tool_arguments: dict[str, Any] | None = None
    #: Shared between the events of one model request: treat it as read-only.
    metadata: Mapping[str, Any] = field(default_factory=lambda: _NONE)

    def __getitem__(self, key: str) -> Any:
        if key not in KEYS:
            raise KeyError(f"{key!r}: an event has {', '.join(KEYS)}")
        return getattr(self, key)

    def get(self, key: str, default: Any = None) -> Any:
        """As for a mapping."""
        return getattr(self, key) if key in KEYS else default

    def keys(self) -> tuple[str, ...]:
        """The five names, so that `dict(event)` works."""
        return KEYS

    def to_dict(self) -> dict[str, Any]:
        """The five items as plain data."""
        return {key: getattr(self, key) for key in KEYS} | {"metadata": dict(self.metadata)}


@dataclass(slots=True)
class RunStarted(Event):
    """A run begins; `content` is the prompt, `messages` what it adds to the history (and the system message).

    They stand behind `after`, if anything was said before.
    """

    type: ClassVar[Literal["run_started"]] = "run_started"
    messages: Sequence[LLMMessage] = ()
    after: LLMMessage | None = None


@dataclass(slots=True)
class TurnStarted(Event):
    """A request goes to the model, with `messages`. `metadata`: call_id, step, provider, model, n_messages_in."""

    type: ClassVar[Literal["turn_started"]] = "turn_started"
    messages: Sequence[LLMMessage] = ()


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
    """A piece of a tool call's arguments; `metadata`: index. `tool_name` is known so far or None."""

    type: ClassVar[Literal["tool_call_delta"]] = "tool_call_delta"


@dataclass(slots=True)
class ToolCall(Event):
    """A complete tool call of a complete turn. `metadata`: tool_call_id, index."""

    type: ClassVar[Literal["tool_call"]] = "tool_call"


@dataclass(slots=True)
class ToolStarted(Event):
    """The tool's function is about to run."""

    type: ClassVar[Literal["tool_started"]] = "tool_started"


@dataclass(slots=True)
class ToolResult(Event):
    """What the model will read as the call's result, `message` in the history.

    `outcome` has the raw value and everything about the call.
    """

    type: ClassVar[Literal["tool_result"]] = "tool_result"
    outcome: ToolOutcome | None = None
    message: LLMMessage | None = None


@dataclass(slots=True)
class ValidationError(Event):
    """Arguments that don't fit the tool; `content` is the feedback for the model. A `tool_result` follows."""

    type: ClassVar[Literal["validation_error"]] = "validation_error"


@dataclass(slots=True)
class Approval(Event):
    """A call was approved, edited or denied; `content` is that word."""

    type: ClassVar[Literal["approval"]] = "approval"


@dataclass(slots=True)
class UsageReport(Event):
    """Token counts of a finished request, in `metadata`: the fields of `Usage`, cost_usd."""

    type: ClassVar[Literal["usage"]] = "usage"


@dataclass(slots=True)
class Retry(Event):
    """The request is sent again: discard this turn's text and thinking. `metadata`: attempt, wait_s, discard_chars."""

    type: ClassVar[Literal["retry"]] = "retry"


@dataclass(slots=True)
class Context(Event):
    """The history was trimmed, summarised or repaired; `content` says how.

    `metadata`: trimmed, the `message_id`s of what no later request holds.
    """

    type: ClassVar[Literal["context"]] = "context"


@dataclass(slots=True)
class Limit(Event):
    """A limit ends the run; `content` says which, `metadata["limit_reason"]` names it."""

    type: ClassVar[Literal["limit"]] = "limit"


@dataclass(slots=True)
class Http(Event):
    """A word about waiting ("loading the model") in `content`; or, with none, an `exchange` that the trace asked for.

    `metadata` has the exchange in short: attempt, method, url, status, duration_s, request_bytes, response_bytes,
    error_type.
    """

    type: ClassVar[Literal["http"]] = "http"
    exchange: Exchange | None = None


@dataclass(slots=True)
class Interrupted(Event):
    """The run was cancelled; `content` is the text so far, `messages` what closed the history."""

    type: ClassVar[Literal["interrupted"]] = "interrupted"
    messages: Sequence[LLMMessage] = ()


@dataclass(slots=True)
class TurnDone(Event):
    """A complete answer of the model arrived; `content` is its text, `message` what the history has of it."""

    type: ClassVar[Literal["turn_done"]] = "turn_done"
    response: LLMResponse | None = None
    message: LLMMessage | None = None


@dataclass(slots=True)
class Done(Event):
    """The run is over; `content` is the final answer, `result` the `AgentResult`, `messages` what closed the history
    where the time for the run was over.
    """

    type: ClassVar[Literal["done"]] = "done"
    result: AgentResult | None = None
    messages: Sequence[LLMMessage] = ()


@dataclass(slots=True)
class Error(Event):
    """The run failed; `exception` is what `chat` raises, `content` its text."""

    type: ClassVar[Literal["error"]] = "error"
    exception: BaseException | None = None
    messages: Sequence[LLMMessage] = ()


AnyEvent = (
    RunStarted
    | TurnStarted
    | Thinking
    | Text
    | ToolCallDelta
    | ToolCall
    | ToolStarted
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
