"""Limits end a run politely: it stops between two steps, or at once if its time is over, and tells which limit it was.

What the agents spend that a tool asks counts for the run that called the tool too: delegating does not evade a budget.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from time import monotonic
from typing import Any, NamedTuple

from nbagent.checks import check_number
from nbagent.config import DEFAULT_MAX_ITERATIONS
from nbagent.core.messages import Usage

#: Before the name of a limit in capitals: `NBAGENT_MAX_COST`.
VARIABLE_PREFIX = "NBAGENT_"


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one run may spend. None sets no limit.

    - `max_iterations`: requests to the model, 10 by default
    - `max_tool_calls`: calls of tools
    - `max_total_tokens`, `max_input_tokens`, `max_output_tokens`
    - `max_cost`: US dollars
    - `max_seconds`: the run ends even while it waits for the model or a tool, and keeps the text so far
    - `tool_seconds`: for one call of a tool that has no timeout of its own, 15 by default

    Tokens, dollars and seconds include those of the agents that the run's tools ask. An environment variable can set
    each limit, such as `NBAGENT_MAX_COST` for `max_cost`. It overrides `AgentConfig`, and arguments override it.
    `math.inf` as an argument lifts a limit that they set.

    >>> Limits(max_cost=0.05, max_seconds=60).max_cost
    0.05
    """

    max_iterations: int | None = None
    max_tool_calls: int | None = None
    max_total_tokens: int | None = None
    max_input_tokens: int | None = None
    max_output_tokens: int | None = None
    max_cost: float | None = None
    max_seconds: float | None = None
    tool_seconds: float | None = None

    def __post_init__(self) -> None:
        for f in fields(self):
            check_number(f.name, getattr(self, f.name), whole=_is_whole(f), minimum=0, optional=True)

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> Limits:
        """The limits that are set by environment variables.

        >>> Limits.from_environment({"NBAGENT_MAX_COST": "0.5"})
        Limits(max_iterations=None, max_tool_calls=None, max_total_tokens=None, max_input_tokens=None, \
max_output_tokens=None, max_cost=0.5, max_seconds=None, tool_seconds=None)
        """
        environ = os.environ if environ is None else environ
        found: dict[str, Any] = {}
        for f in fields(cls):
            variable = VARIABLE_PREFIX + f.name.upper()
            if text := environ.get(variable, "").strip():
                try:
                    value: Any = int(text) if _is_whole(f) else float(text)
                except ValueError:
                    value = text
                fix = "Correct this environment variable, or unset it."
                check_number(variable, value, whole=_is_whole(f), minimum=0, fix=fix)
                found[f.name] = value
        return cls(**found)

    def or_else(self, other: Limits) -> Limits:
        """These limits, and the other's where these are None."""
        pairs = ((f.name, getattr(self, f.name), getattr(other, f.name)) for f in fields(self))
        return Limits(**{name: second if first is None else first for name, first, second in pairs})


def _is_whole(limit: Field[Any]) -> bool:
    return str(limit.type).startswith("int")


class LimitReached(NamedTuple):
    """Which limit ends a run: its `limit_reason`, and a sentence for people."""

    reason: str
    text: str


#: Guards the sums of runs that share a parent, which may be on different threads.
_LOCK = threading.Lock()


@dataclass(slots=True)
class Spending:
    """What a run has spent so far. `parent` belongs to the run whose tool started this one."""

    limits: Limits = field(default_factory=Limits)
    parent: Spending | None = None
    iterations: int = 0
    tool_calls: int = 0
    refused: bool = False  # a call did not run because of max_tool_calls
    usage: Usage = field(default_factory=Usage)
    cost: float | None = 0.0  # None as soon as the price of a request is not known
    started: float = field(default_factory=monotonic)

    def add(self, usage: Usage, cost: float | None) -> None:
        """Count a request for this run and its parents."""
        with _LOCK:
            spending: Spending | None = self
            while spending is not None:
                spending.usage += usage
                spending.cost = None if cost is None or spending.cost is None else spending.cost + cost
                spending = spending.parent

    def seconds_left(self) -> float | None:
        """How long this run may go on, by its own limit and those of its parents; None for no limit."""
        limit = math.inf if self.limits.max_seconds is None else self.limits.max_seconds
        left = max(0.0, self.started + limit - monotonic())
        outer = self.parent.seconds_left() if self.parent is not None else None
        left = left if outer is None else min(left, outer)
        return None if left == math.inf else left

    def reached_limit(self) -> LimitReached | None:
        """The first limit that is reached, or None."""
        limits = self.limits
        iterations = DEFAULT_MAX_ITERATIONS if limits.max_iterations is None else limits.max_iterations
        if self.iterations >= iterations:
            return _reached("iterations", iterations, "model requests")
        if self.refused and limits.max_tool_calls is not None:
            return _reached("tool_calls", limits.max_tool_calls, "tool calls")
        return self._reached_budget()

    def _reached_budget(self) -> LimitReached | None:
        """The first limit that is reached of those that runs share with their parents."""
        limits = self.limits
        budgets = (
            ("tokens", self.usage.total_tokens, limits.max_total_tokens, "tokens"),
            ("tokens", self.usage.input_tokens, limits.max_input_tokens, "input tokens"),
            ("tokens", self.usage.output_tokens, limits.max_output_tokens, "output tokens"),
            ("cost", self.cost or 0.0, limits.max_cost, "dollars"),
            ("time", monotonic() - self.started, limits.max_seconds, "seconds"),
        )
        for reason, spent, limit, unit in budgets:
            if limit is not None and spent >= limit:
                return _reached(reason, limit, unit)
        return self.parent._reached_budget() if self.parent is not None else None


def _reached(reason: str, limit: float, unit: str) -> LimitReached:
    return LimitReached(reason, f"The limit of {limit:g} {unit} is reached.")
