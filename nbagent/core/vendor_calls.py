"""The calls of tools that the vendor runs itself, such as a web search, while it answers.

A decoder yields them as `ToolCall` and `ToolResult` events that hold only what the vendor said. `VendorCalls` completes
them, so that displays and the trace show them like the calls of functions. The history keeps them in the answer, in
the vendor's own form.
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
class VendorCall:
    """One call. `result` is what a person may read of the result; None if there is none yet."""

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    id: str = ""
    result: str | None = None
    is_error: bool = False

    def begun(self) -> ToolCall:
        """The event of the call."""
        return ToolCall("", self.name, self.arguments, {"wire_id": self.id})

    def ended(self, *, is_timed: bool = True) -> ToolResult:
        """The event of its result. How long the call took is unknown if it was told together with its result."""
        about = {"wire_id": self.id, "is_error": self.is_error} | ({} if is_timed else {"duration_s": None})
        return ToolResult(self.result or "", self.name, self.arguments, about)

    def to_dict(self) -> dict[str, Any]:
        """JSON data, for the metadata of an answer."""
        return asdict(self)


def events_of(metadata: Mapping[str, Any]) -> Iterator[Event]:
    """The events of the calls in an answer that came in one piece."""
    for data in metadata.get("vendor_calls", ()):
        call = VendorCall(**data)
        yield call.begun()
        if call.result is not None:
            yield call.ended(is_timed=False)


class VendorCalls:
    """The calls in one answer."""

    def __init__(self, vendor: str, step: int) -> None:
        self._source, self._step = f"vendor:{vendor}", step
        #: By the vendor's id: our own id, and when the call was made.
        self._made: dict[str, tuple[str, float]] = {}
        #: The ids of those that were announced before anything else was told of them.
        self._announced: set[str] = set()

    def begins(self, wire_id: str) -> None:
        """The vendor runs a tool, and has not told yet what it was asked."""
        self._made.setdefault(wire_id, (new_id("tool"), time()))
        self._announced.add(wire_id)

    def complete(self, event: ToolCall | ToolResult) -> None:
        """Add ids, and to a result its outcome."""
        wire_id = str(event.metadata.get("wire_id") or "")
        tool_call_id, started = self._made.setdefault(wire_id, (new_id("tool"), time()))
        ours = {"tool_call_id": tool_call_id, "wire_id": wire_id, "step": self._step, "source": self._source}
        event.metadata = {**ours, **event.metadata}
        if isinstance(event, ToolResult):
            is_timed = wire_id in self._announced or "duration_s" not in event.metadata
            event.metadata["duration_s"] = time() - started if is_timed else None
            call = FunctionCall(event.tool_name or "", event.tool_arguments or {}, wire_id)
            outcome = ToolOutcome(call, event.content, event.content, bool(event.metadata.get("is_error")))
            event.outcome = replace(
                outcome,
                started=started,
                duration_s=event.metadata["duration_s"],
                result_chars=len(event.content),
                source=self._source,
            )
