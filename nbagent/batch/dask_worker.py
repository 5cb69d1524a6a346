"""What runs on a Dask worker: `Asker`, an actor that asks rows there and talks with the client about them.

What all rows share stays with the client: it hands the rows out, admits each request, and counts what is spent. The two
sides exchange small tuples, many in one call: the name of what happened, and its details.

- from the client: `ask(row)`, `admitted(number, rate_key, place or error)`, `spent()`
- from the worker: `answered(key, answer or error, tables)`, `take(number, rate_key, tokens)`, `leave(number)`,
  `note(rate_key, place, quotas)`, `give_back(rate_key, place, end)`
"""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

import cloudpickle

from nbagent.batch.engine import Batch, RowAgent
from nbagent.batch.live import ask
from nbagent.batch.rows import Row
from nbagent.core.admission import End, Quota, current_admissions
from nbagent.core.budget import Budget
from nbagent.core.current import set_current
from nbagent.core.limits import Limits, Spending
from nbagent.core.messages import new_id
from nbagent.errors import AuthenticationError, ConfigurationError
from nbagent.trace.environment import environment
from nbagent.trace.recorder import TABLES
from nbagent.trace.trace import Trace


class Asker:
    """Asks rows on one worker, for one map. Its methods are called by the client, on the worker's event loop."""

    def __init__(self, parcel: bytes) -> None:
        travelling, self._labels = cloudpickle.loads(parcel)
        batch = self._batch = Batch(**travelling, budget=Budget())
        try:
            batch.provider.check()
        except AuthenticationError as error:
            raise ConfigurationError(
                f"a Dask worker can't ask {batch.provider.vendor}: {error.message}. Keys don't travel: set it in the "
                "environment of the workers."
            ) from None
        self._session_id = new_id("session")
        self._knows_environment = False
        #: Agents that ask nothing now.
        self._idle: list[RowAgent] = []
        self._asking: set[asyncio.Task[None]] = set()
        self._numbers = itertools.count()
        #: By number, the requests that wait for a place.
        self._waiting: dict[int, Future[int]] = {}
        self._told: list[tuple[Any, ...]] = []
        self._has_told = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def tell(self, messages: bytes) -> None:
        """Take what the client says."""
        self._loop = asyncio.get_running_loop()
        for name, *details in cloudpickle.loads(messages):
            getattr(self, f"_on_{name}")(*details)

    async def listen(self) -> bytes:
        """What there is to tell: at once, or as soon as there is something."""
        await self._has_told.wait()
        return self._take_told()

    async def stop(self) -> bytes:
        """Cancel what is under way. Returns what is left to tell."""
        for task in self._asking:
            task.cancel()
        await asyncio.gather(*self._asking, return_exceptions=True)
        await asyncio.sleep(0)  # what the tasks told is on its way
        return self._take_told()

    def _take_told(self) -> bytes:
        told, self._told = self._told, []
        self._has_told.clear()
        packed: bytes = cloudpickle.dumps(told)
        return packed

    def say(self, *message: Any) -> None:
        """Tell the client; callable from any thread, since tools may ask agents in theirs."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._note, message)

    def _note(self, message: tuple[Any, ...]) -> None:
        self._told.append(message)
        self._has_told.set()

    def want_place(self) -> tuple[int, Future[int]]:
        """A number for a request, and its place to come."""
        number, place = next(self._numbers), Future[int]()
        self._waiting[number] = place
        return number, place

    def leave(self, number: int) -> None:
        """The request needs no place any more."""
        if self._waiting.pop(number, None):
            self.say("leave", number)

    def _on_ask(self, row: bytes) -> None:
        task = asyncio.get_running_loop().create_task(self._ask(cloudpickle.loads(row)))
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    def _on_admitted(self, number: int, rate_key: str, place: int | Exception) -> None:
        waiting = self._waiting.pop(number, None)
        if isinstance(place, Exception):
            if waiting is not None:
                waiting.set_exception(place)
        elif waiting is not None and waiting.set_running_or_notify_cancel():
            waiting.set_result(place)
        else:  # the request was cancelled meanwhile
            self.say("give_back", rate_key, place, None)

    def _on_spent(self) -> None:
        """Nothing is left: rows that need more than their current request end."""
        self._batch.budget.max_cost = 0.0

    async def _ask(self, row: Row) -> None:
        current_admissions.set(lambda rate_key: _FarAdmission(self, rate_key))
        account = Spending(Limits(max_requests=math.inf), budgets=(self._batch.budget.account,))
        set_current(labels=self._labels, account=account)
        agent = self._idle.pop() if self._idle else self._batch.new_agent()
        # a trace for each row, so that answer and rows of the trace leave together
        agent.trace = Trace(agent.trace.record_http, False, None, is_recording=agent.trace.is_recording)
        agent.trace.recorder.session_id = self._session_id
        outcome: Any = None
        try:
            outcome = await ask(agent, self._batch, row)
        except Exception as error:  # noqa: BLE001  it is sent to the client, which raises it
            outcome = _portable(error)
        finally:
            self._idle.append(agent)
            self.say("answered", row.key, outcome, self._tables(agent.trace))

    def _tables(self, trace: Trace) -> dict[str, list[dict[str, Any]]]:
        if trace.is_recording and not self._knows_environment:
            self._knows_environment = True
            trace.recorder.add_environment(environment)
        return {name: rows for name in TABLES if (rows := trace.recorder.rows(name))}


class _FarAdmission:
    """The client's admission, asked from a worker: see `Admission`."""

    def __init__(self, asker: Asker, rate_key: str) -> None:
        self._asker = asker
        self._rate_key = rate_key

    async def take(self, tokens: int = 0) -> int:
        """See `Admission.take`."""
        number, place = self._asker.want_place()
        self._asker.say("take", number, self._rate_key, tokens)
        try:
            return await asyncio.wrap_future(place)
        except asyncio.CancelledError:
            self._asker.leave(number)
            raise

    def note(self, place: int, quotas: Mapping[str, Quota]) -> None:
        """See `Admission.note`."""
        self._asker.say("note", self._rate_key, place, dict(quotas))

    def give_back(self, place: int, end: End = None) -> None:
        """See `Admission.give_back`."""
        self._asker.say("give_back", self._rate_key, place, end)


def _portable(error: Exception) -> Exception:
    """The error, if it can be pickled, else one with its text."""
    try:
        cloudpickle.loads(cloudpickle.dumps(error))
    except Exception:  # noqa: BLE001  an exception of the user's may raise anything when it is pickled
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
