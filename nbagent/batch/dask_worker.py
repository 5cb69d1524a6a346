"""`RowSender`: sends rows from a Dask worker over its own connections, and returns each answer with its trace."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from typing import Any

import cloudpickle

from nbagent.batch.engine import Batch, RowAgent
from nbagent.batch.live import ask, rates
from nbagent.core.budget import Budget
from nbagent.core.current import set_current
from nbagent.core.messages import new_id
from nbagent.errors import AuthenticationError, ConfigurationError
from nbagent.trace.environment import environment
from nbagent.trace.schema import TABLES
from nbagent.trace.trace import Trace


class RowSender:
    """Sends a map's rows from one worker. The client calls its methods on the worker's event loop."""

    def __init__(self, pickled: bytes) -> None:
        settings, self._labels = cloudpickle.loads(pickled)
        batch = self._batch = Batch(**settings, budget=Budget())
        try:
            batch.provider.check()
        except AuthenticationError as error:
            raise ConfigurationError(
                f"A Dask worker can't use {batch.provider.provider_name}: {error.message}. Keys are not sent to "
                "workers. Set the key in the workers' environment."
            ) from None
        self._session_id = new_id("session")
        self._has_sent_environment = False
        self._idle_agents: list[RowAgent] = []
        self._tasks: set[asyncio.Task[Any]] = set()
        self._rates, self._workers = ExitStack(), 0

    async def ask(self, row: bytes, workers: int) -> bytes:
        """Return a row's answer or error, together with its trace.

        `workers` is the number of workers that share the rate limits.
        """
        if workers != self._workers:
            self._rates.close()
            self._rates.enter_context(rates(self._batch, workers))
            self._workers = workers
        task = asyncio.create_task(self._ask(row))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await task

    async def stop(self) -> None:
        """Cancel the current rows."""
        for task in self._tasks:
            task.cancel()
        self._rates.close()

    async def _ask(self, row: bytes) -> bytes:
        set_current(labels=self._labels)
        agent = self._idle_agents.pop() if self._idle_agents else self._batch.new_agent()
        # each row has its own trace, so its answer and trace rows return together
        agent.trace = Trace(agent.trace.record_http, False, None, is_recording=agent.trace.is_recording)
        agent.trace.recorder.session_id = self._session_id
        outcome: Any
        try:
            outcome = await ask(agent, self._batch, cloudpickle.loads(row))
        except Exception as error:  # noqa: BLE001  it is sent to the client, which raises it
            outcome = _portable(error)
        finally:
            self._idle_agents.append(agent)
        packed: bytes = cloudpickle.dumps((outcome, self._tables(agent.trace)))
        return packed

    def _tables(self, trace: Trace) -> dict[str, list[dict[str, Any]]]:
        if trace.is_recording and not self._has_sent_environment:
            self._has_sent_environment = True
            trace.recorder.add_environment(environment)
        return {name: rows for name in TABLES if (rows := trace.recorder.rows(name))}


def _portable(error: Exception) -> Exception:
    """Return the error if it can be pickled, otherwise another error with its text."""
    try:
        cloudpickle.loads(cloudpickle.dumps(error))
    except Exception:  # noqa: BLE001  a user's exception may raise anything when it is pickled
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
