"""Limits end a run politely: the run stops between two steps and says which limit it was."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from time import monotonic

from nbagent.config import DEFAULT_MAX_ITERATIONS
from nbagent.core.messages import Usage
from nbagent.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one run may spend. `None` is no limit; `max_iterations` counts model requests and is 10 if not given.

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

    def __post_init__(self) -> None:
        for f in fields(self):
            value = getattr(self, f.name)
            if value is not None and value < 0:
                raise ConfigurationError(f"{f.name}={value!r}: a limit is a number from 0 up, or None for no limit")


@dataclass(slots=True)
class Spending:
    """What a run has spent so far."""

    iterations: int = 0
    tool_calls: int = 0
    refused: bool = False  # a call was not run, for max_tool_calls
    usage: Usage = field(default_factory=Usage)
    cost: float | None = 0.0  # None once a request's price was not known
    started: float = field(default_factory=monotonic)

    def over(self, limits: Limits) -> tuple[str, str] | None:
        """`(limit_reason, text)` of the first limit that is reached, or None."""
        iterations = DEFAULT_MAX_ITERATIONS if limits.max_iterations is None else limits.max_iterations
        checks = (
            ("iterations", self.iterations, iterations, "model requests"),
            ("tool_calls", self.tool_calls, limits.max_tool_calls if self.refused else None, "tool calls"),
            ("tokens", self.usage.total_tokens, limits.max_total_tokens, "tokens"),
            ("tokens", self.usage.input_tokens, limits.max_input_tokens, "input tokens"),
            ("tokens", self.usage.output_tokens, limits.max_output_tokens, "output tokens"),
            ("cost", self.cost or 0.0, limits.max_cost, "dollars"),
            ("time", monotonic() - self.started, limits.max_seconds, "seconds"),
        )
        for reason, spent, limit, unit in checks:
            if limit is not None and spent >= limit:
                return reason, f"The limit of {limit:g} {unit} is reached."
        return None
