"""Computes the limits of a run, and keeps the accounts that a token's runs share."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import fields

from nbagent.core.limits import Account, Limits
from nbagent.server.conversations.store import ConversationStore, Lease
from nbagent.server.problems import RefusedError
from nbagent.server.settings import ServerSettings


def tightest(*limits: Limits) -> Limits:
    """Return the lowest value of each limit.

    >>> tightest(Limits(max_cost=2.0, max_tool_calls=5), Limits(max_cost=1.0)).max_cost
    1.0
    """
    found = {f.name: [getattr(limit, f.name) for limit in limits] for f in fields(Limits)}
    given = {name: [value for value in values if value is not None] for name, values in found.items()}
    return Limits(**{name: min(values) for name, values in given.items() if values})


class Budgets:
    """The budgets of conversations and tokens. Within a process, parallel runs that use the same token share an
    account.
    """

    def __init__(self, store: ConversationStore, settings: ServerSettings) -> None:
        self._store = store
        self._settings = settings
        #: The accounts of tokens with current runs, each with the unsaved accounts of these runs.
        self._accounts: dict[str, tuple[Account, list[Account]]] = {}

    @asynccontextmanager
    async def account(self, owner: str) -> AsyncIterator[Account]:
        """Yield a new account for a run, as a child of its token's account."""
        budget = self._settings.max_cost_per_token
        if budget is None:
            yield Account()
            return
        stored = await self._store.spent(owner)  # other processes share the same budget
        if owner not in self._accounts:
            self._accounts[owner] = Account(Limits(max_cost=budget)), []
        shared, runs = self._accounts[owner]
        shared.dollars = max(shared.dollars, stored.dollars + sum(run.dollars for run in runs))
        runs.append(run := Account(parent=shared))
        try:
            yield run
        finally:
            runs[:] = [other for other in runs if other is not run]
            if not runs:
                del self._accounts[owner]

    def limits(self, asked: Limits, own: Limits, turn: Lease | None, account: Account) -> Limits:
        """Return the limits of a run. Raises `RefusedError` if the budget of its conversation or token is spent."""
        left = [asked.max_cost, own.max_cost, self._settings.limits.max_cost]
        per_conversation = self._settings.max_cost_per_conversation
        if per_conversation is not None:
            left.append(per_conversation - (turn.conversation.spent.dollars if turn and turn.conversation else 0.0))
            _check_left(left[-1], "conversation")
        if account.parent is not None:
            assert account.parent.limits.max_cost is not None
            left.append(account.parent.limits.max_cost - account.parent.dollars)
            _check_left(left[-1], "token")
        costs = [dollars for dollars in left if dollars is not None]
        return tightest(asked, own, self._settings.limits, Limits(max_cost=min(costs) if costs else None))


def _check_left(dollars: float | None, of: str) -> None:
    if dollars is not None and dollars <= 0:
        detail = f"The budget of this {of} is spent. Ask the server's operator for more."
        raise RefusedError(402, "budget_spent", detail)
