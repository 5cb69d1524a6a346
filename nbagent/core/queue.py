"""The queue of one agent's runs: they follow each other, whatever event loops and threads they come from."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections import deque
from concurrent.futures import Future
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from nbagent.core.background import blocked_threads
from nbagent.errors import AgentBusyError

#: Guards all queues, since runs that wait for each other may be in several.
_LOCK = threading.Lock()
#: The entries of all queues that wait for their turn.
_waiting: set[QueueEntry] = set()


class RunQueue:
    """First in, first out. Runs enter and leave it through their `QueueEntry`."""

    def __init__(self) -> None:
        #: The streams of the agent's runs by `id`, as long as somebody holds them.
        self.streams: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
        self._current: QueueEntry | None = None
        self._waiting: deque[tuple[Future[None], QueueEntry]] = deque()

    @property
    def entries(self) -> list[QueueEntry]:
        """The current run and those that wait, in order."""
        with _LOCK:
            return self._entries()

    def _entries(self) -> list[QueueEntry]:
        current = [] if self._current is None else [self._current]
        return current + [entry for _, entry in self._waiting]

    async def wait(self, entry: QueueEntry) -> None:
        """Wait until it is the entry's turn. A cancelled waiter leaves the queue.

        Raises `AgentBusyError` if an earlier run waits, through other agents, for a run that waits for this one.
        """
        with _LOCK:
            if self._current is None:
                self._current = entry
                return
            if entry.waits_for_itself():
                raise AgentBusyError(
                    "this agent is busy with a question whose tool waits for the agent that asks now: both would wait "
                    "for ever. Answer without asking it, or ask agent.fork() in the tool"
                )
            mine: tuple[Future[None], QueueEntry] = Future(), entry
            self._waiting.append(mine)
            _waiting.add(entry)
        try:
            await asyncio.wrap_future(mine[0])
        except asyncio.CancelledError:
            with _LOCK:
                waiting = mine in self._waiting
                if waiting:
                    self._waiting.remove(mine)
                    _waiting.discard(entry)
            if not waiting and not mine[0].cancelled():  # its turn had just come
                self.advance()
            raise

    def advance(self) -> None:
        """End the turn of the current entry and let the next one in."""
        with _LOCK:
            while self._waiting:
                future, self._current = self._waiting.popleft()
                _waiting.discard(self._current)
                if future.set_running_or_notify_cancel():
                    future.set_result(None)
                    return
            self._current = None


@dataclass(eq=False, slots=True)
class QueueEntry:
    """One run in its agent's queue, and the task that reads the run's events.

    That task may not ask the same agent again before the run is over: both would wait for ever.
    """

    queue: RunQueue
    #: The runs that wait for this one: its tool is theirs, or their tool's, and so on.
    outer: frozenset[QueueEntry] = frozenset()
    #: The run has begun and is not over.
    active: bool = False
    #: The event loop on which the events are read, and its thread; None before the first.
    loop: asyncio.AbstractEventLoop | None = None
    thread: int | None = None
    #: The iterator that the events are read from; dead if a `break` dropped it.
    iterator: weakref.ref[Any] | None = None
    #: The reading task, weakly. A failed task holds its frames, and these may lead back to the run. The garbage
    #: collector would break such a cycle by closing the run's generators from any thread, in any order.
    _reader: weakref.ref[asyncio.Task[Any]] | None = field(default=None, init=False)

    @property
    def reader(self) -> asyncio.Task[Any] | None:
        """The task that asked for the last event."""
        return None if self._reader is None else self._reader()

    def set_reader(self) -> None:
        """Note that the current task asks for the next event."""
        task = asyncio.current_task()
        if task is not None and (self._reader is None or self._reader() is not task):
            self._reader, self.loop, self.thread = weakref.ref(task), task.get_loop(), threading.get_ident()

    async def enter(self) -> None:
        """Wait until the agent's earlier runs are over. Raises `AgentBusyError` if one of them waits for this run."""
        earlier, self.outer = self.queue.entries, enclosing_runs.get()
        enclosing = any(outer.active and outer.queue is self.queue for outer in self.outer)
        if enclosing or any(entry._is_read_by_current_task() for entry in earlier):
            raise AgentBusyError(
                "this agent is in the middle of a run that waits for this call, and this call would wait for that run. "
                "Finish or close its stream first. Inside a tool or a handler, ask another agent, such as agent.fork()"
            )
        if any(entry.thread in blocked_threads.get() for entry in earlier):
            raise AgentBusyError(
                "an earlier question to this agent can't go on, because this call blocks the event loop that it was "
                "asked on. Use `await agent.chat(...)` here, or await the earlier question first"
            )
        await self.queue.wait(self)
        self.active = True

    def leave(self) -> None:
        """Let the next run begin."""
        self.active = False
        self.queue.advance()

    def waits_for_itself(self) -> bool:
        """Whether the runs before it in its queue can't end before a run does that waits for this one."""
        seen: set[QueueEntry] = set()
        waited_for = self.queue._entries()
        while waited_for:
            entry = waited_for.pop()
            if entry in seen:
                continue
            if entry in self.outer and entry.active:
                return True
            seen.add(entry)
            if entry in _waiting:
                entries = entry.queue._entries()
                waited_for += entries[: entries.index(entry)]
            else:
                waited_for += [inner for inner in _waiting if entry in inner.outer]
        return False

    def _is_read_by_current_task(self) -> bool:
        """Whether the run can't go on before the current task does."""
        dropped = self.iterator is not None and self.iterator() is None
        return self.active and not dropped and self.reader is asyncio.current_task()


#: The runs whose tool, or whose plain `for` loop, the current code is inside of.
enclosing_runs: ContextVar[frozenset[QueueEntry]] = ContextVar("nbagent_enclosing_runs", default=frozenset())
