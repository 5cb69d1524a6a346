"""Limits end a run politely: it stops between two steps, for time at once, and says which limit it was.

What a tool's own agents spend counts for the run that called the tool, too: a budget can't be passed by delegating.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from numbers import Real
from time import monotonic
from typing import Any

from nbagent.config import DEFAULT_MAX_ITERATIONS
from nbagent.core.messages import Usage
from nbagent.errors import ConfigurationError

#: The variable for a limit is this and its name in capitals: `NBAGENT_MAX_COST`.
VARIABLE_PREFIX = "NBAGENT_"


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one run may spend. `None` sets no limit; `max_iterations` counts model requests and is 10 if not given.

    Tokens, dollars and seconds include what agents spend that a tool of the run asks. `max_seconds` ends the run also
    while it waits for the model or a tool, and keeps the text so far. `tool_seconds` is for one call of
    a tool that names no timeout of its own; 15 if not given.

    Each limit can also be set by an environment variable, `NBAGENT_MAX_COST` for `max_cost`; an argument wins over it,
    and it wins over `AgentConfig`. `math.inf` as an argument lifts a limit that they set.

    >>> Limits(max_cost=0.05, max_seconds=60).max_cost
    0.05
    """

    max_iterations: int | None = None
    max_tool_calls: int | None = None
    max_total_tokens: int | None = None
    max_input_tokens: int | None = None
    max_output_tokens: int | None = None
    max_cost: float | None = None  # US dollars
    max_seconds: float | None = None
    tool_seconds: float | None = None

    def __post_init__(self) -> None:
        for f in fields(self):
            value = getattr(self, f.name)
            if value is not None and not _is_limit(value, _is_whole(f)):
                kind = "whole number" if _is_whole(f) else "number"
                raise ConfigurationError(f"{f.name}={value!r}: a limit is a {kind} from 0 up, or None for no limit")

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> Limits:
        """The limits that environment variables set.

        >>> Limits.from_environment({"NBAGENT_MAX_COST": "0.5"})
        Limits(max_iterations=None, max_tool_calls=None, max_total_tokens=None, max_input_tokens=None, \
max_output_tokens=None, max_cost=0.5, max_seconds=None, tool_seconds=None)
        """
        environ = os.environ if environ is None else environ
        found: dict[str, Any] = {}
        for f in fields(cls):
            variable = VARIABLE_PREFIX + f.name.upper()
            if text := environ.get(variable, "").strip():
                found[f.name] = _number(text, whole=_is_whole(f), variable=variable)
        return cls(**found)

    def or_else(self, other: Limits) -> Limits:
        """These limits; where one is not given, the other's."""
        pairs = ((f.name, getattr(self, f.name), getattr(other, f.name)) for f in fields(self))
        return Limits(**{name: second if first is None else first for name, first, second in pairs})


def _is_whole(limit: Field[Any]) -> bool:
    """Whether the limit counts something."""
    return str(limit.type).startswith("int")


def is_number(value: Any) -> bool:
    """Whether it is a real number, also one of numpy's; True and False are none."""
    return type(value) is not bool and isinstance(value, Real)


def _is_limit(value: Any, whole: bool = False) -> bool:
    """`math.inf` lifts a limit of any kind."""
    return is_number(value) and value >= 0 and (not whole or value == math.inf or value == int(value))


def _number(text: str, *, whole: bool, variable: str) -> float:
    try:
        number = int(text) if whole else float(text)
    except ValueError:
        number = -1
    if not _is_limit(number):
        kind = "a whole number" if whole else "a number"
        raise ConfigurationError(f"the environment variable {variable} is {text!r}: set {kind} from 0 up, or unset it")
    return number


_LOCK = threading.Lock()


@dataclass(slots=True)
class Spending:
    """What a run has spent so far. `parent` is that of the run whose tool started this one."""

    limits: Limits = field(default_factory=Limits)
    parent: Spending | None = None
    iterations: int = 0
    tool_calls: int = 0
    refused: bool = False  # a call was not run, for max_tool_calls
    usage: Usage = field(default_factory=Usage)
    cost: float | None = 0.0  # None once a request's price was not known
    started: float = field(default_factory=monotonic)

    def add(self, usage: Usage, cost: float | None) -> None:
        """Count a request here and in the runs that this one works for."""
        with _LOCK:  # the runs may be on different threads
            ledger: Spending | None = self
            while ledger is not None:
                ledger.usage += usage
                ledger.cost = None if cost is None or ledger.cost is None else ledger.cost + cost
                ledger = ledger.parent

    def seconds_left(self) -> float | None:
        """For this run and those that it works for, from 0 up; None for no limit."""
        limit = math.inf if self.limits.max_seconds is None else self.limits.max_seconds
        left = max(0.0, self.started + limit - monotonic())
        outer = self.parent.seconds_left() if self.parent is not None else None
        left = left if outer is None else min(left, outer)
        return None if left == math.inf else left

    def over(self) -> tuple[str, str] | None:
        """`(limit_reason, text)` of the first limit that is reached, or None."""
        limits = self.limits
        iterations = DEFAULT_MAX_ITERATIONS if limits.max_iterations is None else limits.max_iterations
        if self.iterations >= iterations:
            return "iterations", _text(iterations, "model requests")
        if self.refused and limits.max_tool_calls is not None:
            return "tool_calls", _text(limits.max_tool_calls, "tool calls")
        return self._over_budget()

    def _over_budget(self) -> tuple[str, str] | None:
        """As `over`, for what this run shares with its parents."""
        limits = self.limits
        checks = (
            ("tokens", self.usage.total_tokens, limits.max_total_tokens, "tokens"),
            ("tokens", self.usage.input_tokens, limits.max_input_tokens, "input tokens"),
            ("tokens", self.usage.output_tokens, limits.max_output_tokens, "output tokens"),
            ("cost", self.cost or 0.0, limits.max_cost, "dollars"),
            ("time", monotonic() - self.started, limits.max_seconds, "seconds"),
        )
        for reason, spent, limit, unit in checks:
            if limit is not None and spent >= limit:
                return reason, _text(limit, unit)
        return self.parent._over_budget() if self.parent is not None else None


def _text(limit: float, unit: str) -> str:
    return f"The limit of {limit:g} {unit} is reached."
