"""`Budget`: a spending limit that agents, maps, forks and sub-agents share."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Never

from nbagent.core.limits import Account, Limits
from nbagent.errors import ConfigurationError


class Budget:
    """A spending limit shared by everything that uses this object. Once the budget is spent, runs end with
    `status="limit"`.

    - `max_cost`: the cost in US dollars. The prices of the models must be known.
    - `max_total_tokens`: the sum of input and output tokens

    `Limits` apply to each run separately, but a budget is shared by all runs that use it. Requests that are under way
    when it runs out are still answered and counted. When little is left, parallel rows of a map and parallel agents
    take turns, so together they exceed the budget by about one answer at most. Raise `max_cost` to continue.

    >>> budget = Budget(max_cost=0.50)
    >>> agents = [Agent("openai", budget=budget), Agent("claude", budget=budget)]   # doctest: +SKIP
    >>> budget
    <Budget: $0.0000 of $0.50>
    """

    def __init__(self, max_cost: float | None = None, max_total_tokens: int | None = None) -> None:
        #: The spending so far and the limits.
        self.account = Account(Limits(max_cost=max_cost, max_total_tokens=max_total_tokens))

    @property
    def max_cost(self) -> float | None:
        """The US dollars that may be spent; None for no limit. Assign a higher value to continue."""
        return self.account.limits.max_cost

    @max_cost.setter
    def max_cost(self, dollars: float | None) -> None:
        self.account.limits = replace(self.account.limits, max_cost=dollars)

    @property
    def spent(self) -> float:
        """The US dollars spent so far, not counting requests with an unknown price."""
        return self.account.dollars

    @property
    def left(self) -> float:
        """The US dollars left; `inf` without a limit."""
        return math.inf if self.max_cost is None else max(0.0, self.max_cost - self.spent)

    @property
    def is_spent(self) -> bool:
        """Whether the budget is used up."""
        return self.account.reached_budget() is not None

    def __reduce__(self) -> Never:
        raise ConfigurationError("A Budget can't be copied or pickled: the copy would be spent separately.")

    def __repr__(self) -> str:
        limits, account = self.account.limits, self.account
        parts = [f"${account.dollars:.4f}" + ("" if limits.max_cost is None else f" of ${limits.max_cost:.2f}")]
        if limits.max_total_tokens is not None:
            parts.append(f"{account.usage.total_tokens:,} of {limits.max_total_tokens:,} tokens")
        return f"<Budget: {', '.join(parts)}>"
