"""The Dask engine: rows are asked on the workers of a cluster, and what they share stays here, with the client.

The client hands out rows, admits each request and counts what is spent; each worker has one `Asker` (an actor), which
asks the rows that it was given. Nothing that matters is on a worker: if one is lost, its rows are asked elsewhere, and
answers that came are kept. Two calls to a worker carry everything, `tell` and `listen`, each many messages.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Coroutine, Sequence
from dataclasses import fields
from time import monotonic
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

import cloudpickle
from distributed import Client
from distributed.client import FutureCancelledError
from distributed.scheduler import KilledWorker

from nbagent.batch.answer import Answer
from nbagent.batch.dask_worker import Asker
from nbagent.batch.engine import Batch, Keep, RowAgent
from nbagent.batch.live import LiveEngine
from nbagent.batch.rows import Row
from nbagent.core.admission import Admission, Admissions, current_admissions
from nbagent.core.cells import current_cell
from nbagent.core.current import current
from nbagent.core.limits import Limits, Spending
from nbagent.core.messages import Usage
from nbagent.errors import ConfigurationError, NbagentError
from nbagent.providers.catalog import CATALOG
from nbagent.providers.keys import keys
from nbagent.trace.joined import add_runs
from nbagent.trace.trace import Trace

if TYPE_CHECKING:
    from distributed import Actor, Future

T = TypeVar("T")
log = logging.getLogger("nbagent")

#: A row that so many workers were lost with is not asked again: it may be what they died of.
MAX_LOSSES = 3
#: Seconds between two looks for workers that joined.
LOOK_EVERY_S = 5.0
#: What a call to a worker raises that is gone.
_GONE = (OSError, RuntimeError, KeyError, KilledWorker, FutureCancelledError)


class WorkerLostError(Exception):
    """A worker ended while it had rows."""


class DaskEngine:
    """Asks rows on the workers of `client`, `batch.concurrency` at a time in all."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def ask_rows(self, batch: Batch, rows: Sequence[Row], keep: Keep) -> None:
        """See `Engine`."""
        async with _Cluster(self._client, batch) as cluster:
            await LiveEngine(cluster.ask).ask_rows(batch, rows, keep)


def parcel_of(batch: Batch) -> bytes:
    """How to ask, as bytes for a worker. Raises `ConfigurationError` for what can't travel, above all keys."""
    travelling = {f.name: getattr(batch, f.name) for f in fields(batch) if f.name not in ("budget", "admissions")}
    travelling["new_agent"] = batch.new_agent().parcel()
    try:
        parcel: bytes = cloudpickle.dumps((travelling, current.get().labels))
    except ConfigurationError:
        raise
    except Exception as error:  # noqa: BLE001  an object of the user's may raise anything when it is pickled
        raise ConfigurationError(
            f"this map can't go to Dask workers: {error}. Tools, output types and options travel by cloudpickle: open "
            "files, connections and agents inside of the functions that use them."
        ) from None
    known = {keys.find([name]): vendor.name for vendor in CATALOG.values() for name in vendor.key_vars}
    for secret in (*known, *getattr(batch.provider, "secrets", ())):
        if secret and secret.encode() in parcel:
            name = known.get(secret, batch.provider.vendor)
            raise ConfigurationError(
                f"the key of {name} would go to the workers, since a tool, an output type or an option holds it. Read "
                "it from the environment inside of the function."
            )
    return parcel


class _Cluster:
    """The workers, as one thing that asks rows."""

    def __init__(self, client: Client, batch: Batch) -> None:
        self._client = client
        self._parcel = parcel_of(batch)
        self._workers: list[_Worker] = []
        self._lock = asyncio.Lock()
        self._looks_at = 0.0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.gather(*(worker.stop() for worker in self._workers), return_exceptions=True)

    async def ask(self, agent: RowAgent, batch: Batch, row: Row) -> Answer:
        """The answer to a row, from whichever worker has the fewest rows. What it cost is counted here."""
        budgets = [batch.budget, *([agent.budget] if agent.budget else [])]
        if any(budget.is_spent for budget in budgets):
            return Answer(row.key, "left")
        try:
            packed: bytes = cloudpickle.dumps(row)  # reads its images
        except NbagentError as error:
            if batch.raises:
                raise
            return Answer(row.key, "error", error=f"{type(error).__name__}: {error}")
        for _ in range(MAX_LOSSES):
            try:
                worker = await self._least_busy(agent.trace)
                answer = await worker.ask(row.key, packed)
            except WorkerLostError as error:
                log.info("a Dask worker was lost, its rows are asked elsewhere: %s", error)
                continue
            if answer.input_tokens or answer.output_tokens:
                spends = tuple(budget.account for budget in budgets)
                account = Spending(Limits(max_requests=math.inf), current.get().account, budgets=spends)
                account.add(Usage(answer.input_tokens or 0, answer.output_tokens or 0), answer.cost)
            if any(budget.is_spent for budget in budgets):
                for each in self._workers:
                    each.say("spent")
            return answer
        lost = f"WorkerLostError: {MAX_LOSSES} workers were lost while they asked this row"
        return Answer(row.key, "error", error=f"{lost}. Look at their logs: it may be too large for their memory.")

    async def _least_busy(self, trace: Trace) -> _Worker:
        """The worker with the fewest rows. Where there is none, the cluster is asked for one, and may grow."""
        if not self._alive or (monotonic() > self._looks_at and not self._lock.locked()):
            async with self._lock:
                if not self._alive or monotonic() > self._looks_at:
                    await self._look(trace)
        return min(self._alive, key=lambda worker: len(worker.rows))

    @property
    def _alive(self) -> list[_Worker]:
        return [worker for worker in self._workers if worker.is_alive]

    async def _look(self, trace: Trace) -> None:
        """Start an `Asker` on each worker that has none."""
        self._looks_at = monotonic() + LOOK_EVERY_S
        known = {worker.address for worker in self._alive}
        there = await on_loop_of(self._client, _addresses(self._client))
        new: list[str | None] = [address for address in there if address not in known]
        if not there:
            new = [None]
        started = [start_asker(self._client, self._parcel, address) for address in new]
        for outcome in await asyncio.gather(
            *(on_loop_of(self._client, each) for each in started), return_exceptions=True
        ):
            if isinstance(outcome, BaseException):
                if not isinstance(outcome, _GONE) or isinstance(outcome, ConfigurationError):
                    raise outcome
                log.info("a Dask worker was lost before it asked a row: %s", outcome)
            else:
                self._workers.append(_Worker(self._client, *outcome, trace, current_admissions.get()))
        if not self._alive:
            raise WorkerLostError("no worker could be started")


async def _addresses(client: Client) -> list[str]:
    found: Any = client
    return list(await found.nthreads())


async def start_asker(client: Client, parcel: bytes, address: str | None) -> tuple[Future[Asker], Actor]:
    """Start an actor, on that worker if it is still there. Runs on the client's event loop."""
    where = {} if address is None else {"workers": [address], "allow_other_workers": True}
    future = client.submit(Asker, parcel, actor=True, pure=False, **where)
    try:
        return future, await future
    except ImportError as error:
        raise ConfigurationError(f"a Dask worker can't ask: {error}. Install there what is installed here.") from None


async def on_loop_of(client: Client, coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the client's event loop, which may be another thread's."""
    loop = cast(Any, client.loop).asyncio_loop
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(coroutine, loop))


class _Worker:
    """One worker: the rows that it has, and the talk with its `Asker`."""

    def __init__(
        self, client: Client, future: Future[Asker], actor: Actor, trace: Trace, admissions: Admissions | None
    ) -> None:
        self._client = client
        self._future: Any = future
        self._actor: Any = actor
        self._trace = trace
        self._cell = current_cell()
        self._admissions = admissions
        #: By rate key and place, the places that its requests have.
        self._places: dict[tuple[str, int], Admission] = {}
        #: By number, the requests that wait for a place.
        self._takes: dict[int, asyncio.Task[int]] = {}
        self._said: list[tuple[Any, ...]] = []
        self._has_said = asyncio.Event()
        self.address = actor._address
        self.is_alive = True
        #: By key, the answers to come.
        self.rows: dict[str, asyncio.Future[Answer]] = {}
        self._talk = [asyncio.create_task(self._until_lost(talk())) for talk in (self._speak, self._hear)]

    async def ask(self, key: str, row: bytes) -> Answer:
        """The answer to a row, given as a pickle. Raises `WorkerLostError`, and what the row raised."""
        if not self.is_alive:
            raise WorkerLostError(self.address)
        answer = self.rows[key] = asyncio.get_running_loop().create_future()
        self.say("ask", row)
        try:
            answered: Answer = await answer
            return answered
        finally:
            self.rows.pop(key, None)

    def say(self, *message: Any) -> None:
        """Tell the worker."""
        self._said.append(message)
        self._has_said.set()

    async def stop(self) -> None:
        """End what the worker has under way."""
        was_alive = self.is_alive
        self._end("stopped")
        try:
            if was_alive:
                self._take(await self._call("stop"))
        except WorkerLostError:
            pass
        finally:
            self._end("stopped")
            self._future.release()

    async def _speak(self) -> None:
        while True:
            await self._has_said.wait()
            self._has_said.clear()
            said, self._said = self._said, []
            await self._call("tell", cloudpickle.dumps(said))

    async def _hear(self) -> None:
        while True:
            self._take(await self._call("listen"))

    async def _until_lost(self, talk: Coroutine[Any, Any, None]) -> None:
        try:
            await talk
        except WorkerLostError as error:
            self._end(str(error))
            self._future.release()

    async def _call(self, method: str, *arguments: bytes) -> bytes:
        async def call() -> bytes:
            answer: bytes = await getattr(self._actor, method)(*arguments)
            return answer

        try:
            return await on_loop_of(self._client, call())
        except _GONE as error:
            raise WorkerLostError(f"{self.address}: {error}") from None

    def _end(self, reason: str) -> None:
        """Give back what the worker holds."""
        self.is_alive = False
        for task in (*self._talk, *self._takes.values()):
            if task is not asyncio.current_task():
                task.cancel()
        for (_, place), admission in self._places.items():
            admission.give_back(place)
        self._places.clear()
        for answer in self.rows.values():
            if not answer.done():
                answer.set_exception(WorkerLostError(reason))

    def _take(self, messages: bytes) -> None:
        for name, *details in cloudpickle.loads(messages):
            getattr(self, f"_on_{name}")(*details)

    def _on_answered(
        self, key: str, outcome: Answer | Exception | None, tables: dict[str, list[dict[str, Any]]]
    ) -> None:
        for row in (row for rows in tables.values() for row in rows):
            row["cell_id"] = self._cell.cell_id
        add_runs(self._trace.recorder, tables)
        answer = self.rows.get(key)
        if answer is None or answer.done():
            return
        if isinstance(outcome, Exception):
            answer.set_exception(outcome)
        elif outcome is not None:
            answer.set_result(outcome)

    def _on_take(self, number: int, rate_key: str, tokens: int) -> None:
        async def admit() -> int:
            if self._admissions is None:
                return 0
            admission = self._admissions(rate_key)
            place = await admission.take(tokens)
            self._places[rate_key, place] = admission
            return place

        def tell(taken: asyncio.Task[int]) -> None:
            self._takes.pop(number, None)
            if not taken.cancelled():
                self.say("admitted", number, rate_key, taken.exception() or taken.result())

        self._takes[number] = asyncio.create_task(admit())
        self._takes[number].add_done_callback(tell)

    def _on_leave(self, number: int) -> None:
        if task := self._takes.get(number):
            task.cancel()

    def _on_note(self, rate_key: str, place: int, quotas: Any) -> None:
        if admission := self._places.get((rate_key, place)):
            admission.note(place, quotas)

    def _on_give_back(self, rate_key: str, place: int, end: Any) -> None:
        if admission := self._places.pop((rate_key, place), None):
            admission.give_back(place, end)
