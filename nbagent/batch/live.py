"""The live engine: `concurrency` tasks, each of which sends one row at a time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from time import monotonic
from typing import Any

from nbagent.batch.answer import Answer
from nbagent.batch.engine import Batch, Keep, RowAgent
from nbagent.batch.fields import row_of
from nbagent.batch.rows import Row
from nbagent.core.admission import admission_of
from nbagent.core.current import current, set_current
from nbagent.core.limits import Account
from nbagent.core.results import AgentResult
from nbagent.errors import AuthenticationError, ConfigurationError, ModelNotFoundError, QuotaError, RegionError

log = logging.getLogger("nbagent")

#: Errors that would affect every row. They stop the map.
OF_ALL_ROWS = (AuthenticationError, ConfigurationError, ModelNotFoundError, QuotaError, RegionError)
AskRow = Callable[[RowAgent, Batch, Row], Awaitable[Answer]]


class LiveEngine:
    """Sends rows to the provider's usual endpoint, `batch.concurrency` at a time."""

    def __init__(self, ask_row: AskRow | None = None) -> None:
        self._ask = ask_row or ask

    async def ask_rows(self, batch: Batch, rows: Sequence[Row], keep: Keep) -> None:
        """See `Engine`."""
        account = Account(parent=current.get().account, budgets=(batch.budget.account,))
        waiting = iter(rows)

        async def work() -> None:
            set_current(account=account)
            agent = batch.new_agent()
            for row in waiting:  # shared by all tasks
                if batch.budget.is_spent:
                    break
                keep(await self._ask(agent, batch, row))

        with rates(batch):
            await side_by_side(work() for _ in range(min(batch.concurrency, len(rows))))


async def side_by_side(coroutines: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run coroutines concurrently. If one raises, cancel the others, and raise the error once all have ended."""
    tasks = [asyncio.create_task(coroutine) for coroutine in coroutines]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@contextmanager
def rates(batch: Batch, shares: int = 1) -> Iterator[None]:
    """Apply the batch's `rpm` and `tpm`, or this process's share of them, within this block."""
    rpm, tpm = (rate and rate / shares for rate in (batch.rpm, batch.tpm))
    with ExitStack() as stack:
        for key in {member.rate_key for member in batch.provider.members}:
            stack.enter_context(admission_of(key).limited(rpm, tpm))
        yield


async def ask(agent: RowAgent, batch: Batch, row: Row) -> Answer:
    """Return the answer to a row. If the row failed, the answer contains the error."""
    started, waits = monotonic(), list[float]()
    agent.clear_history()
    set_current(row_key=row.key, waits=waits)
    error: str | None
    result, values = None, None
    try:
        result = await agent.chat(row.content, origin={"source": "map"}, **batch.options)
        if result.data is not None:
            values = row_of(batch.output, result.data)
    except Exception as failure:  # recorded in the row, so that other rows are not lost
        if batch.raises or isinstance(failure, OF_ALL_ROWS):
            raise
        log.info("a row failed", exc_info=True)
        result = result or getattr(failure, "partial", None) or AgentResult()
        status, error = "error", f"{type(failure).__name__}: {failure}"
    else:
        left = result.limit_reason and batch.budget.is_spent
        status, error = ("left", None) if left else (result.status, result.status_reason)
    return Answer(
        row.key,
        status,
        result.content,
        result.usage.input_tokens,
        result.usage.output_tokens,
        result.cost,
        max(0.0, monotonic() - started - sum(waits)),
        error,
        result.run_id or None,
        values,
    )
