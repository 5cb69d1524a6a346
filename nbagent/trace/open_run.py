"""A run that goes on: the rows of its current turn, which may still change, and what is summed up in its own row."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from nbagent.core.events import Event
from nbagent.core.messages import Usage
from nbagent.trace.rows import Row

USAGE = ("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens", "total_tokens")
#: The numbers of `USAGE`.
counts: Callable[[Usage], tuple[int, ...]] = attrgetter(*USAGE)
#: What a run sums up of its calls.
_SPENT = (*USAGE, "cost_usd", "replayed")


@dataclass(slots=True)
class OpenRun:
    """All by `call_id`, but for `tools`, which is by `tool_call_id`."""

    row: Row
    since: dict[str, int]  # of each table the first row that may still change
    last_message: str | None  # of the conversation
    calls: dict[str, Row] = field(default_factory=dict)
    tools: dict[str, Row] = field(default_factory=dict)
    thinking: dict[str, list[str]] = field(default_factory=dict)
    called: dict[str, list[Row]] = field(default_factory=dict)  # the blocks of each call's tool calls
    sent: dict[str, float] = field(default_factory=dict)  # when the call's current attempt went out
    waiting: set[str] = field(default_factory=set)  # calls whose first token has not come
    _spent: list[tuple[Any, ...]] = field(default_factory=list)  # of each call that is over
    _n_tools: int = 0

    def piece(self, event: Event) -> None:
        """The first piece of an answer tells how long it took, the first after thinking how long that took.

        The pieces of thinking are kept until it is whole.
        """
        call_id = event.metadata.get("call_id", "")
        if call_id in self.waiting:
            self.waiting.remove(call_id)
            self.calls[call_id]["ttft_s"] = time.time() - self.sent[call_id]
        if event.type == "thinking":
            self.thinking.setdefault(call_id, []).append(event.content)
        else:
            self.thought(call_id)

    def thought(self, call_id: str) -> None:
        """The thinking of a call, if there was any, is over, if it was not yet."""
        call = self.calls.get(call_id)
        if call is not None and call_id in self.thinking and call["thinking_s"] is None:
            call["thinking_s"] = time.time() - self.sent[call_id] - call["ttft_s"]

    def turn_over(self) -> None:
        """The rows of the turn change no more: only what the run's own row needs of them is kept."""
        self._spent += [tuple(map(call.get, _SPENT)) for call in self.calls.values()]
        self._n_tools += len(self.tools)
        for rows in (self.calls, self.tools, self.called, self.sent, self.waiting):
            rows.clear()

    def sums(self) -> Row:
        """Columns of `runs`: of all turns that are over. What is known of no call is None; of cost, what is not of all.

        >>> OpenRun({}, {}, None).sums()["n_calls"]
        0
        """
        spent = dict(zip(_SPENT, zip(*self._spent, strict=True), strict=False))
        costs = [cost for cost in spent.get("cost_usd", ()) if cost is not None]
        is_known = len(costs) == len(self._spent) > 0
        return {
            "n_calls": len(self._spent),
            "n_tool_calls": self._n_tools,
            **{name: _sum([count for count in spent.get(name, ()) if count is not None]) for name in USAGE},
            "cost_usd": sum(costs) if is_known else None,
            "cost_known": is_known,
            "replayed": len(self._spent) > 0 and all(spent["replayed"]),
        }


def _sum(numbers: Sequence[int]) -> int | None:
    """None where nothing is known."""
    return sum(numbers) if numbers else None
