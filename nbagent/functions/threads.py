"""The threads that sync tools run in."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import itertools
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")
IDLE_S = 60.0


class DaemonThreads:
    """Threads made when none is idle, so that a tool that hangs never keeps another from running.

    They are daemons: a process ends while a tool still runs (those of `ThreadPoolExecutor` would be waited for). A
    thread that was idle for a minute ends.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._numbers = itertools.count(1)
        self._reset()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._reset)

    def _reset(self) -> None:
        """No threads yet; those of a parent process do not exist in its forked child."""
        self._jobs: SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0

    def submit(self, function: Callable[[], T]) -> Future[T]:
        """Run it at once in a thread. Cancelling the future of a running function has no effect on it."""
        future: Future[T] = Future()
        with self._lock:
            reuse = self._idle > 0
            self._idle -= reuse
        self._jobs.put((future, function))
        if not reuse:
            threading.Thread(target=self._work, name=f"{self._name}-{next(self._numbers)}", daemon=True).start()
        return future

    def _work(self) -> None:
        jobs = self._jobs
        while True:
            try:
                future, function = jobs.get(timeout=IDLE_S)
            except Empty:
                with self._lock:
                    if self._idle:
                        self._idle -= 1
                        return
                continue  # a job is on its way to this thread
            _run(future, function)
            del future, function  # results and arguments are not kept alive by an idle thread
            with self._lock:
                self._idle += 1


def _run(future: Future[Any], function: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = function()
    except BaseException as error:  # noqa: BLE001  whoever waits for the future raises it; the thread serves other tools
        future.set_exception(error)
    else:
        future.set_result(result)


_THREADS = DaemonThreads("nbagent-tool")


async def in_thread(function: Callable[..., Any], *args: Any) -> Any:
    """Call it in a thread, in a copy of this task's context, which is where notebook output finds its cell."""
    context = contextvars.copy_context()
    return await asyncio.wrap_future(_THREADS.submit(functools.partial(context.run, function, *args)))
