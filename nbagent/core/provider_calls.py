"""Calls to tools that a provider runs itself while it answers, such as a web search.

A decoder yields such calls as `ToolCall` and `ToolResult` events with only the provider's data. `ProviderCalls`
completes these events, so displays and the trace show the calls like function calls. In the history, the calls are part
of the answer, in the provider's own form.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from time import time
from typing import Any

from nbagent.core.events import Event, ToolCall, ToolResult
from nbagent.core.messages import FunctionCall, new_id
from nbagent.core.results import ToolOutcome


@dataclass(slots=True)
class ProviderCall:
    """One call. `result` is readable text, or None if there is no result yet."""

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    id: str = ""
    result: str | None = None
    is_error: bool = False

    def begun(self, *, has_ended: bool = False) -> ToolCall:
        """Return the event for the call. `has_ended` says that the provider reported the call only together with its
        result.
        """
        return ToolCall("", self.name, self.arguments, {"wire_id": self.id, "has_ended": has_ended})

    def ended(self) -> ToolResult:
        """Return the event for the result."""
        about = {"wire_id": self.id, "is_error": self.is_error}
        return ToolResult(self.result or "", self.name, self.arguments, about)

    def to_dict(self) -> dict[str, Any]:
        """Return the call as JSON data, for an answer's metadata."""
        return asdict(self)


def events_of(metadata: Mapping[str, Any]) -> Iterator[Event]:
    """Yield the events for the calls in an answer that was not streamed."""
    for data in metadata.get("provider_calls", ()):
        call = ProviderCall(**data)
        yield call.begun(has_ended=call.result is not None)
        if call.result is not None:
            yield call.ended()


class ProviderCalls:
    """The calls in one answer."""

    def __init__(self, provider: str, step: int) -> None:
        self._source, self._step = f"provider:{provider}", step
        #: By the provider's id: our own id, and the time of the call if it is known.
        self._made: dict[str, tuple[str, float | None]] = {}

    def begins(self, wire_id: str) -> None:
        """Record that the provider has started a tool, but not reported the arguments yet."""
        self._made.setdefault(wire_id, (new_id("tool"), time()))

    def complete(self, event: ToolCall | ToolResult) -> None:
        """Add nbagent's own ids to an event, and add the outcome to a result."""
        wire_id = str(event.metadata.get("wire_id") or "")
        now, about = time(), dict(event.metadata)
        began = None if about.pop("has_ended", False) else now
        tool_call_id, started = self._made.setdefault(wire_id, (new_id("tool"), began))
        ours = {"tool_call_id": tool_call_id, "wire_id": wire_id, "step": self._step, "source": self._source}
        event.metadata = {**ours, **about}
        if isinstance(event, ToolResult):
            seconds = event.metadata["duration_s"] = None if started is None else now - started
            call = FunctionCall(event.tool_name or "", event.tool_arguments or {}, wire_id)
            outcome = ToolOutcome(call, event.content, event.content, bool(event.metadata.get("is_error")))
            event.outcome = replace(
                outcome,
                started=now if started is None else started,
                duration_s=seconds,
                result_chars=len(event.content),
                source=self._source,
            )
