"""The Dask engine: a cluster's workers send the rows.

The client distributes the rows and adds up the costs. Each worker has a `RowSender` (an actor) that sends its rows. If
a worker is lost, other workers send its current rows again. Its earlier answers are kept.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from time import monotonic
from typing import Any, cast

import cloudpickle
from distributed import Client
from distributed.client import FutureCancelledError
from distributed.scheduler import KilledWorker

from nbagent.batch.answer import Answer
from nbagent.batch.dask_worker import RowSender
from nbagent.batch.engine import Batch, Keep, RowAgent
from nbagent.batch.live import LiveEngine
from nbagent.batch.rows import Row
from nbagent.core.cells import current_cell
from nbagent.core.current import current
from nbagent.core.limits import Account
from nbagent.core.messages import Usage
from nbagent.errors import ConfigurationError, NbagentError
from nbagent.trace.combined import add_runs
from nbagent.trace.trace import Trace

log = logging.getLogger("nbagent")

#: A row fails after this many lost workers, because the row may be the cause.
MAX_LOSSES = 3
#: Seconds between two checks for new workers.
CHECK_EVERY_S = 5.0
#: Errors of a call to a lost worker.
_LOST = (OSError, RuntimeError, KeyError, KilledWorker, FutureCancelledError)


class DaskEngine:
    """Sends rows from the workers of `client`. In total, `batch.concurrency` rows are sent at a time."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def ask_rows(self, batch: Batch, rows: Sequence[Row], keep: Keep) -> None:
        """See `Engine`."""
        cluster = _Cluster(self._client, batch)
        try:
            await LiveEngine(cluster.ask).ask_rows(batch, rows, keep)
        finally:
            await cluster.stop()


def pickled(batch: Batch) -> bytes:
    """Return the batch as bytes for a worker, without the providers' keys.

    Raises `ConfigurationError` if a setting can't be sent.
    """
    settings = {f.name: getattr(batch, f.name) for f in fields(batch) if f.name != "budget"}
    settings["new_agent"] = batch.new_agent().worker_factory()
    try:
        data: bytes = cloudpickle.dumps((settings, current.get().labels))
        return data
    except ConfigurationError:
        raise
    except Exception as error:  # noqa: BLE001  a user's object may raise anything when it is pickled
        raise ConfigurationError(
            f"This map can't be sent to Dask workers: {error}. Tools, output types and options are sent with "
            "cloudpickle. Open files and connections, and create agents, inside the functions that use them."
        ) from None


class _Cluster:
    """All workers of a cluster, which send the rows of one map."""

    def __init__(self, client: Client, batch: Batch) -> None:
        self._client = client
        self._pickled = pickled(batch)
        self._workers: list[_Worker] = []
        self._lock = asyncio.Lock()
        self._next_check = 0.0

    async def stop(self) -> None:
        """Stop the workers' current rows."""
        stopping = [self._on_loop(worker.actor.stop) for worker in self._workers]
        await asyncio.gather(*stopping, return_exceptions=True)
        for worker in self._workers:
            worker.future.release()

    async def ask(self, agent: RowAgent, batch: Batch, row: Row) -> Answer:
        """Let the least busy worker answer a row, and count the cost here."""
        budgets = [batch.budget, *([agent.budget] if agent.budget else [])]
        if any(budget.is_spent for budget in budgets):
            return Answer(row.key, "left")
        try:
            packed: bytes = cloudpickle.dumps(row)  # reads the row's images
        except NbagentError as error:
            if batch.raises:
                raise
            return Answer(row.key, "error", error=f"{type(error).__name__}: {error}")
        for _ in range(MAX_LOSSES):
            try:
                answered = await self._ask_worker(packed)
            except _LOST as error:
                log.info("a Dask worker was lost; others send its rows: %s", error)
                continue
            outcome, tables = cloudpickle.loads(answered)
            self._record(agent.trace, tables)
            if isinstance(outcome, Exception):
                raise outcome
            answer: Answer = outcome
            if answer.input_tokens or answer.output_tokens:
                accounts = tuple(budget.account for budget in budgets)
                account = Account(parent=current.get().account, budgets=accounts)
                account.add(Usage(answer.input_tokens or 0, answer.output_tokens or 0), answer.cost)
            return answer
        lost = f"{MAX_LOSSES} workers were lost while they sent this row"
        return Answer(row.key, "error", error=f"{lost}. Check their logs: the row may be too large for their memory.")

    async def _ask_worker(self, row: bytes) -> bytes:
        worker = await self._least_busy()
        worker.rows += 1
        try:
            answered: bytes = await self._on_loop(worker.actor.ask, row, len(self._workers))
            return answered
        except _LOST:
            self._workers = [other for other in self._workers if other is not worker]
            raise
        finally:
            worker.rows -= 1

    def _record(self, trace: Trace, tables: dict[str, list[dict[str, Any]]]) -> None:
        cell = current_cell()
        for row in (row for rows in tables.values() for row in rows):
            row["cell_id"] = cell.cell_id
        add_runs(trace.recorder, tables)

    async def _least_busy(self) -> _Worker:
        """Return the worker with the fewest rows. If there is no worker, request one, so the cluster may grow."""
        async with self._lock:
            if not self._workers or monotonic() > self._next_check:
                await self._start_senders()
        return min(self._workers, key=lambda worker: worker.rows)

    async def _start_senders(self) -> None:
        """Start a `RowSender` on each worker without one."""
        known = {worker.address for worker in self._workers}
        addresses = list(await self._on_loop(self._client.nthreads))
        new = [address for address in addresses if address not in known] if addresses else [None]
        started = await asyncio.gather(*map(self._start, new), return_exceptions=True)
        for outcome in started:
            if isinstance(outcome, _Worker):
                self._workers.append(outcome)
            elif not isinstance(outcome, _LOST) or isinstance(outcome, ConfigurationError):
                raise outcome
        if not self._workers:
            raise OSError("no worker could be started")
        self._next_check = monotonic() + CHECK_EVERY_S

    async def _start(self, address: str | None) -> _Worker:
        """Start a `RowSender` on this worker if it still exists, otherwise on any worker."""
        where = {} if address is None else {"workers": [address], "allow_other_workers": True}
        future: Any = self._client.submit(RowSender, self._pickled, actor=True, pure=False, **where)
        try:
            actor = await self._on_loop(lambda: future)
        except ImportError as error:
            raise ConfigurationError(
                f"A Dask worker can't send rows: {error}. Install the missing package on the workers."
            ) from None
        return _Worker(future, actor)

    async def _on_loop(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """Await a call on the client's event loop, which may run in another thread."""

        async def run() -> Any:
            return await call(*arguments)

        loop = cast(Any, self._client.loop).asyncio_loop
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(run(), loop))


@dataclass(eq=False)
class _Worker:
    """One worker: the future that keeps its `RowSender` alive, its actor, and the number of its current rows."""

    future: Any
    actor: Any
    rows: int = 0

    @property
    def address(self) -> str:
        """The worker's address."""
        return str(self.actor._address)
