"""`OpenRun`: the recorder's state of a run in progress."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from nbagent.core.events import Event
from nbagent.core.messages import LLMMessage
from nbagent.core.model_request import Timing
from nbagent.trace.rows import Row
from nbagent.trace.schema import USAGE

#: The columns of `calls` that `runs` adds up.
_SUMMED = (*USAGE, "cost_usd", "replayed")

#: The `call_id` of a request, and its messages without the system prompt.
Sent = tuple[str | None, list[LLMMessage]]


@dataclass(slots=True)
class OpenRun:
    """A run in progress: the rows of its current turn, which may still change, and the totals of earlier turns."""

    row: Row
    last_message: str | None  # the `message_id` of the newest message in the conversation
    asked: Sequence[LLMMessage] = ()  # the prompt, until it is sent
    conversation: str | None = None
    request: Sent = field(default_factory=lambda: (None, []))  # the last request of the conversation
    call: Row = field(default_factory=dict)  # empty before the first turn
    call_blocks: list[Row] = field(default_factory=list)  # the blocks with the tool calls of the answer
    tools: dict[str, Row] = field(default_factory=dict)  # by `tool_call_id`
    results: dict[str, LLMMessage] = field(default_factory=dict)  # of this turn, by `tool_call_id`
    thinking: list[str] = field(default_factory=list)  # the pieces so far
    timing: Timing = field(default_factory=Timing)  # the provider's measurements of the call
    sent: float = 0.0  # when the current attempt was sent, minus the setup time
    waiting: bool = False  # for the first token
    _finished: list[tuple[Any, ...]] = field(default_factory=list)  # `_SUMMED` of each finished call
    _n_tools: int = 0

    def send(self, wait: float = 0.0) -> None:
        """Record that an attempt at the call starts in `wait` seconds, and discard the previous attempt's thinking."""
        self.sent, self.waiting = time.time() + wait - self.timing.setup_s, True
        self.thinking.clear()

    def add_delta(self, event: Event) -> None:
        """Keep streamed thinking, and measure the time to the first token and the thinking time."""
        if self.waiting:
            self.waiting = False
            self.sent += self.timing.setup_s
            self.call["ttft_s"] = time.time() - self.sent
        if event.type == "thinking":
            self.thinking.append(event.content)
        else:
            self.end_thinking()

    def end_thinking(self) -> None:
        """Measure the thinking time, unless there was no thinking or its time is already measured."""
        if self.thinking and self.call["thinking_s"] is None:
            self.call["thinking_s"] = time.time() - self.sent - self.call["ttft_s"]

    def end_call(self) -> None:
        """Set the call's times, counted from the moment when the request was ready to be sent. If no usage was
        reported, the call's cost is 0.
        """
        self.call.setdefault("cost_usd", 0.0)
        self.call["setup_s"] = self.timing.setup_s
        self.call["started"] += self.timing.setup_s
        self.call["duration_s"] = time.time() - self.call["started"]

    def take_thinking(self) -> str:
        """Return and clear the streamed thinking."""
        thought = "".join(self.thinking)
        self.thinking.clear()
        return thought

    def end_turn(self) -> None:
        """Release the turn's rows, which no longer change, and keep the numbers that the run's row sums up."""
        if self.call:
            self._finished.append(tuple(map(self.call.get, _SUMMED)))
        self._n_tools += len(self.tools)
        self.call, self.call_blocks, self.waiting = {}, [], False
        self.tools.clear()
        self.results.clear()

    def totals(self) -> Row:
        """Return the columns of `runs` that sum up the run's finished calls.

        A count is None if no call reported it. The cost is None if no call has finished or the cost of any paid call is
        unknown.

        >>> OpenRun({}, None).totals()["n_calls"]
        0
        """
        values = dict(zip(_SUMMED, zip(*self._finished, strict=True), strict=False))
        known = {name: [value for value in values.get(name, ()) if value is not None] for name in USAGE}
        costs = list(zip(values.get("cost_usd", ()), values.get("replayed", ()), strict=True))
        paid = [cost for cost, is_replayed in costs if not is_replayed]
        played = [cost for cost, is_replayed in costs if is_replayed and cost is not None]
        cost_known = bool(costs) and None not in paid
        return {
            "n_calls": len(self._finished),
            "n_tool_calls": self._n_tools,
            **{name: sum(known[name]) if known[name] else None for name in USAGE},
            "cost_usd": sum(paid) if cost_known else None,
            "replayed_cost_usd": sum(played) if played else None,
            "cost_known": cost_known,
            "replayed": len(self._finished) > 0 and all(values["replayed"]),
        }
