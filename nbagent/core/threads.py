"""Runs blocking functions, such as sync tools, in daemon threads, in a copy of the caller's context."""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")
IDLE_S = 60.0


class DaemonThreads:
    """Threads that are reused, and started whenever none is idle, so that a hanging tool never blocks another.

    Daemon threads don't keep a process alive while a tool still runs; `ThreadPoolExecutor` waits for its own. A thread
    ends after it was idle for a minute.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._numbers = itertools.count(1)
        self._reset()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._reset)

    def _reset(self) -> None:
        """Start without threads: those of a parent process do not exist in its forked child."""
        self._jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0

    async def run(self, function: Callable[..., T], *args: Any) -> T:
        """Call the function in a thread, in a copy of this task's context, by which notebook output finds its cell.

        Cancelling does not stop a function that already runs.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        context = contextvars.copy_context()

        def job() -> None:
            if future.cancelled():
                return
            try:
                settle: tuple[Callable[[Any], None], Any] = future.set_result, context.run(function, *args)
            except BaseException as error:  # noqa: BLE001  handed to the task, where `await future` raises it
                settle = future.set_exception, error
            with suppress(RuntimeError):  # the event loop was closed meanwhile; nobody waits
                loop.call_soon_threadsafe(_settle, future, *settle)

        self._submit(job)
        return await future

    def _submit(self, job: Callable[[], None]) -> None:
        with self._lock:
            reuse = self._idle > 0
            self._idle -= reuse
        self._jobs.put(job)
        if not reuse:
            threading.Thread(target=self._work, name=f"{self._name}-{next(self._numbers)}", daemon=True).start()

    def _work(self) -> None:
        jobs = self._jobs
        while True:
            try:
                job = jobs.get(timeout=IDLE_S)
            except Empty:
                with self._lock:
                    if self._idle:
                        self._idle -= 1
                        return
                continue  # a job is on its way to this thread
            job()
            del job  # an idle thread must not keep results and arguments alive
            with self._lock:
                self._idle += 1


def _settle(future: asyncio.Future[Any], answer: Callable[[Any], None], value: Any) -> None:
    if not future.done():  # cancelled meanwhile
        answer(value)


#: Runs a sync function in a thread: `await run_in_thread(function, *args)`.
run_in_thread = DaemonThreads("nbagent-tool").run
