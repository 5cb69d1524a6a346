"""Runs blocking functions, such as sync tools, in daemon threads with a copy of the caller's context.

The tools of all agents share a limited number of threads. NBAGENT_TOOL_THREADS sets this number, which is 64 by
default. If a tool calls an agent, that agent's tools have a separate limit, so they always get a thread.

A browser has no threads, so functions run where they are awaited, and no time limit ends them.
"""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import os
import threading
from collections import defaultdict, deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from nbagent.checks import check_number
from nbagent.core.browser import IN_BROWSER
from nbagent.core.current import current
from nbagent.core.interrupting import GRACE_S, Interruptible

T = TypeVar("T")
Job = Callable[[], None]
IDLE_S = 60.0
#: How many sync tools run at the same time, unless this environment variable sets another number.
MAX_TOOL_THREADS, THREADS_VARIABLE = 64, "NBAGENT_TOOL_THREADS"


def max_tool_threads() -> int:
    """Return how many sync tools may run at the same time. Raises `ConfigurationError` if NBAGENT_TOOL_THREADS is
    invalid.

    >>> max_tool_threads()
    64
    """
    if not (text := os.environ.get(THREADS_VARIABLE, "").strip()):
        return MAX_TOOL_THREADS
    number = int(text) if text.isdecimal() else text
    check_number(THREADS_VARIABLE, number, whole=True, minimum=1, fix="Correct this environment variable, or unset it.")
    return int(number)


class DaemonThreads:
    """A pool of threads. A new thread starts if none is idle, up to `limit()` for each level of nested runs.

    Unlike the threads of a `ThreadPoolExecutor`, these daemon threads don't keep the process alive while a tool is
    still running. A thread ends after a minute without work.
    """

    def __init__(
        self, name: str, limit: Callable[[], int] = lambda: MAX_TOOL_THREADS, *, interrupts: bool = False
    ) -> None:
        self._name = name
        self._limit = limit
        self._interrupts = interrupts
        self._numbers = itertools.count(1)
        self._reset()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._reset)

    def _reset(self) -> None:
        """Start without threads: a parent's threads do not exist in its forked child."""
        self._jobs: SimpleQueue[Job] = SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0
        #: For each level, the number of running jobs, and the jobs that wait for one of them to end.
        self._running: defaultdict[int, int] = defaultdict(int)
        self._waiting: defaultdict[int, deque[Job]] = defaultdict(deque)

    async def run(self, function: Callable[..., T], *args: Any) -> T:
        """Call the function in a thread, with a copy of this task's context, so notebook output goes to the task's
        cell.

        Cancelling does not stop a running function unless the pool's `interrupts` is set. In that case, the function
        receives a KeyboardInterrupt and has a moment to end.
        """
        if IN_BROWSER:
            return contextvars.copy_context().run(function, *args)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        ended = asyncio.Event()
        context, interruptible = contextvars.copy_context(), Interruptible()

        def job() -> None:
            if future.cancelled():  # before it started
                with suppress(RuntimeError):
                    loop.call_soon_threadsafe(ended.set)
                return
            try:
                value = interruptible.run(partial(context.run, function, *args))
                settle: tuple[Callable[[Any], None], Any] = future.set_result, value
            except BaseException as error:  # noqa: BLE001  `await future` raises it; without it the task would wait for ever
                settle = future.set_exception, error
            with suppress(RuntimeError):  # the event loop is closed, so nothing waits
                loop.call_soon_threadsafe(_settle, future, ended, *settle)  # a single call: waking the loop is costly

        level, limit = len(current.get().enclosing), self._limit()
        self._submit(job, level, limit)
        try:
            return await future
        except asyncio.CancelledError:
            with self._lock:
                waiting = self._waiting[level]
                begun = job not in waiting
                if not begun:
                    waiting.remove(job)
            if begun and self._interrupts:
                interruptible.interrupt()
                with suppress(TimeoutError):
                    await asyncio.wait_for(ended.wait(), GRACE_S)
            raise

    def _submit(self, job: Job, level: int, limit: int) -> None:
        with self._lock:
            if self._running[level] >= limit:
                self._waiting[level].append(job)
                return
            self._running[level] += 1
            reuse = self._idle > 0
            self._idle -= reuse
        self._jobs.put(partial(self._work_through, level, job))
        if not reuse:
            thread = threading.Thread(target=self._work, name=f"{self._name}-{next(self._numbers)}", daemon=True)
            contextvars.Context().run(thread.start)  # an empty context, because the thread also serves other runs

    def _work_through(self, level: int, job: Job | None) -> None:
        """Run a job, then the waiting jobs, one by one."""
        while job is not None:
            job()
            with self._lock:
                waiting = self._waiting[level]
                job = waiting.popleft() if waiting else None
                self._running[level] -= job is None

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


def _settle(future: asyncio.Future[Any], ended: asyncio.Event, answer: Callable[[Any], None], value: Any) -> None:
    if not future.done():  # not cancelled
        answer(value)
    ended.set()


#: Runs a sync function in a thread: `await run_in_thread(function, *args)`.
run_in_thread = DaemonThreads("nbagent-tool", max_tool_threads, interrupts=True).run
