"""The live engine: one request after the other on each of so many connections."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from time import monotonic

from nbagent.batch.answer import Answer
from nbagent.batch.engine import Batch, RowAgent
from nbagent.batch.fields import to_json
from nbagent.batch.rows import Row
from nbagent.core.limits import Limits, Spending, current_account
from nbagent.core.queue import enclosing_runs
from nbagent.core.results import AgentResult
from nbagent.errors import AuthenticationError, ConfigurationError, ModelNotFoundError, QuotaError, RegionError

log = logging.getLogger("nbagent")

#: Errors that each row would have: they end the map.
OF_ALL_ROWS = (AuthenticationError, ConfigurationError, ModelNotFoundError, QuotaError, RegionError)


class LiveEngine:
    """Asks the vendor's usual endpoint, `batch.concurrency` rows at a time."""

    async def answers(self, batch: Batch, rows: Sequence[Row]) -> AsyncGenerator[Answer]:
        """See `Engine`."""
        account = Spending(Limits(max_requests=math.inf), current_account.get(), len(enclosing_runs.get()))  # type: ignore[arg-type]
        account.budgets = (batch.budget.account,)
        waiting = iter(rows)
        answered: asyncio.Queue[Answer | BaseException | None] = asyncio.Queue()

        async def work() -> None:
            current_account.set(account)
            try:
                agent = batch.new_agent()
                for row in waiting:  # which all of these share
                    if batch.budget.is_spent:
                        break
                    answered.put_nowait(await ask(agent, batch, row))
                    await answered.join()  # kept, before this one asks more: a kill costs one row for each of these
                answered.put_nowait(None)
            except BaseException as error:  # noqa: BLE001  who reads the answers raises it
                answered.put_nowait(error)

        tasks = [asyncio.create_task(work()) for _ in range(min(batch.concurrency, len(rows)))]
        try:
            for _ in tasks:
                while (answer := await answered.get()) is not None:
                    if isinstance(answer, BaseException):
                        raise answer
                    yield answer
                    answered.task_done()
                answered.task_done()
        finally:
            for task in tasks:
                task.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.gather(*tasks, return_exceptions=True)


async def ask(agent: RowAgent, batch: Batch, row: Row) -> Answer:
    """The answer to one row. A failure is one, too."""
    started = monotonic()
    agent.clear_history()
    try:
        result = await agent.chat(list(row.messages), origin={"source": "map"}, **batch.options)
    except Exception as error:  # the row holds it; other rows are not lost
        if batch.raises or isinstance(error, OF_ALL_ROWS):
            raise
        log.info("a row failed", exc_info=True)
        partial = getattr(error, "partial", AgentResult())
        return _answer(batch, row, partial, monotonic() - started, "error", f"{type(error).__name__}: {error}")
    if result.limit_reason and batch.budget.is_spent:
        return _answer(batch, row, result, monotonic() - started, "left", None)
    return _answer(batch, row, result, monotonic() - started, result.status, result.status_reason)


def _answer(batch: Batch, row: Row, result: AgentResult, seconds: float, status: str, error: str | None) -> Answer:
    is_whole = batch.output is not None and status in ("ok", "denied")
    return Answer(
        row.key,
        status,
        result.content,
        to_json(batch.output, result.data) if is_whole else None,
        result.usage.input_tokens,
        result.usage.output_tokens,
        result.cost,
        seconds,
        error,
        result.run_id or None,
    )
