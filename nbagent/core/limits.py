"""Limits of runs. A run that reaches a limit stops before its next step, or immediately if its time is up. Its result
names the limit.

A run and all runs that its tools start, even in background tasks, share one budget, so delegating work does not evade
it.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import Field, dataclass, field, fields, replace
from operator import attrgetter
from time import monotonic
from typing import Any, NamedTuple

from nbagent.checks import check_number
from nbagent.config import DEFAULT_MAX_DEPTH, DEFAULT_MAX_ITERATIONS, DEFAULT_MAX_REQUESTS
from nbagent.core.messages import Usage
from nbagent.core.threadsafe_event import ThreadsafeEvent
from nbagent.errors import AgentDepthError

#: Prefix of a limit's environment variable: `NBAGENT_MAX_COST`.
VARIABLE_PREFIX = "NBAGENT_"
#: A whole number, or `math.inf`, which is a float and lifts a limit.
Count = float


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one run. None means the default, which is no limit unless another default is stated here.

    - `max_iterations`: the number of requests to the model, 10 by default. Requests made by other agents don't count.
    - `max_requests`: the number of requests to all models, 1000 by default
    - `max_depth`: how many levels deep agents may call other agents, 5 by default. A deeper call raises
      `AgentDepthError`.
    - `max_tool_calls`: the number of tool calls
    - `max_total_tokens`, `max_input_tokens`, `max_output_tokens`. Missing counts are estimated.
    - `max_cost`: the cost in US dollars. The price of the model must be known.
    - `max_seconds`: the duration. The run ends even while it waits for the model or a tool, and keeps the text so far.
    - `tool_seconds`: the timeout of tools that have none of their own, 15 by default

    All limits except `max_iterations` and `tool_seconds` also cover the agents that the run's tools call. Each limit
    has an environment variable, such as `NBAGENT_MAX_COST` for `max_cost`. The variable overrides `AgentConfig`, and
    arguments override the variable. Pass `math.inf` to lift a limit.

    >>> Limits(max_cost=0.05, max_seconds=60).max_cost
    0.05
    """

    max_iterations: Count | None = None
    max_requests: Count | None = None
    max_depth: Count | None = None
    max_tool_calls: Count | None = None
    max_total_tokens: Count | None = None
    max_input_tokens: Count | None = None
    max_output_tokens: Count | None = None
    max_cost: float | None = None
    max_seconds: float | None = None
    tool_seconds: float | None = None

    def __post_init__(self) -> None:
        for f in fields(self):
            if (value := getattr(self, f.name)) is not None:
                check_number(f.name, value, whole=_is_whole(f), minimum=0)

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> Limits:
        """The limits set by environment variables.

        >>> Limits.from_environment({"NBAGENT_MAX_COST": "0.5"})
        Limits(max_iterations=None, max_requests=None, max_depth=None, max_tool_calls=None, max_total_tokens=None, \
max_input_tokens=None, max_output_tokens=None, max_cost=0.5, max_seconds=None, tool_seconds=None)
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
        """Return these limits, with the values of `other` where a limit is None."""
        own = {f.name: value for f in fields(self) if (value := getattr(self, f.name)) is not None}
        return replace(other, **own)


def _is_whole(limit: Field[Any]) -> bool:
    return str(limit.type).startswith("Count")


class LimitReached(NamedTuple):
    """The limit that ended a run: its `limit_reason`, and a sentence that describes it."""

    reason: str
    text: str


@dataclass(slots=True)
class Request:
    """A request that other requests may have to wait for."""

    is_under_way: bool = True


#: Guards all accounts: a tree's runs may be on different threads.
_LOCK = threading.Lock()
#: Requests that wait for other requests to end, in all trees. There are few, and only when a budget is nearly spent.
_waiting: list[ThreadsafeEvent] = []


@dataclass(slots=True)
class Account:
    """The spending of a run, and its limits. The spending is also charged to the run whose tool started this run, and
    so on up to the first run.

    `parent` is the account of the run whose tool started this run, or of the map to which this row belongs. `budgets`
    are accounts shared with other runs (see `Budget`).
    """

    limits: Limits = field(default_factory=Limits)
    parent: Account | None = None
    #: How many runs wait for this one; None for an account without a run, which has no limits by default.
    depth: int | None = None
    budgets: tuple[Account, ...] = ()
    iterations: int = 0
    requests: int = 0  # like all fields below, including the runs that this run's tools started
    tool_calls: int = 0
    usage: Usage = field(default_factory=Usage)
    dollars: float = 0.0  # not counting requests with an unknown price
    all_priced: bool = True
    #: The number of requests under way in the runs below, and the largest count of each kind in an answer so far.
    under_way: int = 0
    largest: Usage = field(default_factory=Usage)
    most_dollars: float = 0.0
    #: The tool-call limit that prevented a call.
    refused_at: Count | None = None
    started: float = field(default_factory=monotonic)
    #: The run is over. Tools' background work still spends its budget, but not its time.
    over: bool = False
    #: The accounts above this one, then their budgets and its own, each once.
    _above: tuple[Account, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        parents: list[Account] = []
        budgets = {id(budget): budget for budget in self.budgets}
        account = self.parent
        while account is not None:
            parents.append(account)
            budgets.update((id(budget), budget) for budget in account.budgets)
            account = account.parent
        self._above = (*parents, *budgets.values())

    def count_for(self, *budgets: Account) -> None:
        """From now on, also charge these budgets, in addition to the accounts of the runs above. Call this between two
        requests.
        """
        self.budgets = budgets
        self.__post_init__()

    @property
    def cost(self) -> float | None:
        """The US dollars spent; None if a request's price is unknown."""
        return self.dollars if self.all_priced else None

    def add(self, usage: Usage, cost: float | None) -> None:
        """Count an answer for this run and the runs above it."""
        with _LOCK:
            for account in self._accounts():
                account.usage += usage
                account.largest = account.largest.maximum(usage)
                account.dollars += cost or 0.0
                account.most_dollars = max(account.most_dollars, cost or 0.0)
                account.all_priced = account.all_priced and cost is not None

    def asking(self, enclosing: Request | None = None) -> AbstractAsyncContextManager[Request | None]:
        """Return a context manager for a request and its answer. On entry, it waits while parallel requests may still
        use up a shared budget.

        Each parallel request is expected to use as much as the largest answer so far. So all runs of a tree together
        exceed a budget by at most one answer, unless an answer is larger than all earlier ones. A run without a parent
        never waits, because the code that reads its events may be waiting for other runs.

        `enclosing` is the last request that the current code sent, or the request whose answer it contributes to.
        """
        is_part = enclosing is not None and enclosing.is_under_way  # an answer can't wait for the request it is part of
        return nullcontext(enclosing) if self.parent is None or is_part else self._taking_turns()

    @asynccontextmanager
    async def _taking_turns(self) -> AsyncGenerator[Request]:
        while (ended := self._begin_request()) is not None:
            try:
                await ended.wait()
            finally:
                with _LOCK:
                    _waiting.remove(ended)
        request = Request()
        try:
            yield request
        finally:
            request.is_under_way = False
            with _LOCK:
                for account in self._above:
                    account.under_way -= 1
                for ended in _waiting:
                    ended.set_from_thread()

    def _begin_request(self) -> ThreadsafeEvent | None:
        """Count a request as under way, or return an event that is set when another request ends."""
        with _LOCK:
            may_be_spent = (each.under_way and each._own_budget(each.under_way) for each in self._above)
            if self.reached_budget() is None and any(may_be_spent):
                _waiting.append(ended := ThreadsafeEvent())
                return ended
            for account in self._above:
                account.under_way += 1
        return None

    def add_request(self) -> None:
        """Count a request for this run and the runs above it."""
        with _LOCK:
            self.iterations += 1
            for account in self._accounts():
                account.requests += 1

    def take_tool_calls(self, wanted: int) -> int:
        """Return how many of these calls may run, and count them for this run and the runs above it."""
        with _LOCK:
            granted = wanted
            for account in self._accounts():
                limit = account.limits.max_tool_calls
                if limit is not None and limit - account.tool_calls < granted:
                    granted, self.refused_at = max(0, int(limit) - account.tool_calls), limit
            for account in self._accounts():
                account.tool_calls += granted
        return granted

    def check_depth(self) -> None:
        """Raise `AgentDepthError` if agents have called each other too deeply."""
        for account in self._accounts():
            limit = account.limits.max_depth
            if limit is None and account.depth == 0:
                limit = DEFAULT_MAX_DEPTH
            if limit is not None and (self.depth or 0) - (account.depth or 0) > limit:
                raise AgentDepthError(
                    f"agents call other agents more than {limit} levels deep: answer without calling another agent. "
                    "Limits(max_depth=...) of the first agent sets this limit"
                )

    def seconds_left(self) -> float | None:
        """Return the seconds left for this run under its own limit and the limits of the runs above it, or None without
        a limit.
        """
        limits = [(each.started, each.limits.max_seconds) for each in self._accounts() if not each.over]
        ends = [started + seconds for started, seconds in limits if seconds is not None and seconds != math.inf]
        return max(0.0, min(ends) - monotonic()) if ends else None

    def reached_limit(self) -> LimitReached | None:
        """Return the first limit that has been reached, or None."""
        limit = self.limits.max_iterations
        iterations = DEFAULT_MAX_ITERATIONS if limit is None else limit
        if self.iterations >= iterations:
            return _reached("iterations", iterations, "model requests")
        if self.refused_at is not None:
            return _reached("tool_calls", self.refused_at, "tool calls")
        return self.reached_budget()

    def reached_budget(self) -> LimitReached | None:
        """Return the first limit that has been reached, apart from `max_iterations` and `max_tool_calls`, or None."""
        for account in self._accounts():
            if (reached := account._own_budget()) is not None:
                return reached
        return None

    def _own_budget(self, expected: int = 0) -> LimitReached | None:
        """The first limit that would be reached by this many more answers of the largest size."""
        limits = self.limits
        requests = limits.max_requests
        if requests is None and self.depth == 0:
            requests = DEFAULT_MAX_REQUESTS
        if requests is not None and self.requests >= requests:
            return _reached("requests", requests, "model requests of all agents")
        for name, reason, unit, count in _BUDGETS:
            limit = getattr(limits, name)
            if limit is not None and count(self.usage) + expected * count(self.largest) >= limit:
                return _reached(reason, limit, unit)
        if limits.max_cost is not None and self.dollars + expected * self.most_dollars >= limits.max_cost:
            return _reached("cost", limits.max_cost, "dollars")
        seconds = limits.max_seconds
        if seconds is not None and (0.0 if self.over else monotonic() - self.started) >= seconds:
            return _reached("time", seconds, "seconds")
        return None

    def _accounts(self) -> tuple[Account, ...]:
        return (self, *self._above)


#: For each token limit: the field, the reason, the unit and the count.
_BUDGETS: tuple[tuple[str, str, str, Callable[[Usage], int]], ...] = (
    ("max_total_tokens", "tokens", "tokens", attrgetter("total_tokens")),
    ("max_input_tokens", "tokens", "input tokens", attrgetter("input_tokens")),
    ("max_output_tokens", "tokens", "output tokens", attrgetter("output_tokens")),
)


def _reached(reason: str, limit: float, unit: str) -> LimitReached:
    if unit == "dollars":
        amount = f"{limit:g}" if round(limit, 2) != limit else f"{limit:.2f}"
        return LimitReached(reason, f"The ${amount} limit was reached.")
    return LimitReached(reason, f"The limit of {limit:g} {unit} was reached.")
