"""`Budget`: a spend that agents, maps, forks and sub-agents share."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Never

from nbagent.core.limits import Account, Limits
from nbagent.errors import ConfigurationError


class Budget:
    """What everything that holds this object may spend together. A run that finds it spent ends with `status="limit"`.

    - `max_cost`: US dollars; needs models with known prices
    - `max_total_tokens`: tokens, in and out

    Unlike `Limits`, which each run has anew, a budget is spent once. Requests that are under way when it is spent are
    answered and counted. When little is left, the rows of a map and the agents that tools ask at the same time take
    turns: they pass it by about one answer together. Raise `max_cost` to go on.

    >>> budget = Budget(max_cost=0.50)
    >>> agents = [Agent("openai", budget=budget), Agent("claude", budget=budget)]   # doctest: +SKIP
    >>> budget
    <Budget: $0.0000 of $0.50>
    """

    def __init__(self, max_cost: float | None = None, max_total_tokens: int | None = None) -> None:
        #: What is spent, and the limits.
        self.account = Account(Limits(max_cost=max_cost, max_total_tokens=max_total_tokens))

    @property
    def max_cost(self) -> float | None:
        """US dollars that may be spent; None for no limit. Assign more to go on."""
        return self.account.limits.max_cost

    @max_cost.setter
    def max_cost(self, dollars: float | None) -> None:
        self.account.limits = replace(self.account.limits, max_cost=dollars)

    @property
    def spent(self) -> float:
        """US dollars spent so far, as far as prices are known."""
        return self.account.dollars

    @property
    def left(self) -> float:
        """US dollars that are left; `inf` without a limit."""
        return math.inf if self.max_cost is None else max(0.0, self.max_cost - self.spent)

    @property
    def is_spent(self) -> bool:
        """Whether nothing is left."""
        return self.account.reached_budget() is not None

    def __reduce__(self) -> Never:
        raise ConfigurationError("A Budget can't be copied or pickled: the copy would be spent separately.")

    def __repr__(self) -> str:
        limits, account = self.account.limits, self.account
        parts = [f"${account.dollars:.4f}" + ("" if limits.max_cost is None else f" of ${limits.max_cost:.2f}")]
        if limits.max_total_tokens is not None:
            parts.append(f"{account.usage.total_tokens:,} of {limits.max_total_tokens:,} tokens")
        return f"<Budget: {', '.join(parts)}>"
