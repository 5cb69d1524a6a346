"""The queue of one agent's runs, which take place one at a time, even across event loops and threads."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections import deque
from collections.abc import Set
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from nbagent.errors import AgentBusyError


class RunQueue:
    """A first-in, first-out queue of runs. Runs enter and leave it through their `QueueEntry`."""

    def __init__(self) -> None:
        #: The streams of the agent's runs, by `id`, while they are referenced.
        self.streams: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
        self._lock = threading.Lock()
        self._current: QueueEntry | None = None
        self._waiting: deque[tuple[Future[None], QueueEntry]] = deque()

    @property
    def entries(self) -> list[QueueEntry]:
        """The current run and the waiting runs, in order."""
        with self._lock:
            current = [] if self._current is None else [self._current]
            return current + [entry for _, entry in self._waiting]

    async def wait(self, entry: QueueEntry) -> None:
        """Wait for the entry's turn. If the wait is cancelled, the entry leaves the queue."""
        with self._lock:
            if self._current is None:
                self._current = entry
                return
            mine: tuple[Future[None], QueueEntry] = Future(), entry
            self._waiting.append(mine)
        try:
            await asyncio.wrap_future(mine[0])
        except asyncio.CancelledError:
            with self._lock:
                waiting = mine in self._waiting
                if waiting:
                    self._waiting.remove(mine)
            if not waiting and not mine[0].cancelled():  # its turn had just come
                self.advance()
            raise

    def advance(self) -> None:
        """End the current entry's turn, and start the next entry's."""
        with self._lock:
            while self._waiting:
                future, self._current = self._waiting.popleft()
                if future.set_running_or_notify_cancel():
                    future.set_result(None)
                    return
            self._current = None


@dataclass(eq=False, slots=True)
class QueueEntry:
    """One run in its agent's queue, and the task that reads the run's events.

    That task may not call the same agent again before the run is over, because the run and the call would wait for each
    other forever.
    """

    queue: RunQueue
    #: Whether the run has started and is not over.
    active: bool = False
    #: The event loop on which the events are read, and its thread; None before the first event.
    loop: asyncio.AbstractEventLoop | None = None
    thread: int | None = None
    #: The iterator of the events; dead if a `break` dropped it.
    iterator: weakref.ref[Any] | None = None
    #: The reading task. The reference is weak because a failed task keeps its frames, which may refer back to the run.
    #: The garbage collector would break such a cycle by closing the run's generators from any thread, in any order.
    _reader: weakref.ref[asyncio.Task[Any]] | None = field(default=None, init=False)

    @property
    def reader(self) -> asyncio.Task[Any] | None:
        """The task that read the last event."""
        return None if self._reader is None else self._reader()

    def set_reader(self) -> None:
        """Record that the current task reads the next event."""
        task = asyncio.current_task()
        if task is not None and (self._reader is None or self._reader() is not task):
            self._reader, self.loop, self.thread = weakref.ref(task), task.get_loop(), threading.get_ident()

    async def enter(self, enclosing: Set[QueueEntry] = frozenset(), blocked_threads: Set[int] = frozenset()) -> None:
        """Wait until the agent's earlier runs are over. Raises `AgentBusyError` if one of them waits for this run.

        `enclosing` contains the runs that wait for this run, and `blocked_threads` contains the threads that wait for
        it.
        """
        earlier = self.queue.entries
        is_inside = any(outer.active and outer.queue is self.queue for outer in enclosing)
        if is_inside or any(entry._is_read_by_current_task() for entry in earlier):
            raise AgentBusyError(
                "this agent is in the middle of a run that waits for this call, and this call would wait for that run. "
                "Finish or close its stream first. Inside a tool or a handler, call another agent, such as agent.fork()"
            )
        if any(entry.thread in blocked_threads for entry in earlier):
            raise AgentBusyError(
                "an earlier prompt to this agent can't continue, because this call blocks its event loop. Use "
                "`await agent.chat(...)` here, or await the earlier prompt first"
            )
        await self.queue.wait(self)
        self.active = True

    def leave(self) -> None:
        """Let the next run start."""
        self.active = False
        self.queue.advance()

    def _is_read_by_current_task(self) -> bool:
        """Whether the run can continue only after the current task does."""
        dropped = self.iterator is not None and self.iterator() is None
        return self.active and not dropped and self.reader is asyncio.current_task()
