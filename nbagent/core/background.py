"""The one background event loop, and the ways between it and the threads that wait for it.

`run_sync` is how blocking code (a script, a plain `for`, a magic under `%%time`) runs a coroutine, also where another
loop is already running in the same thread. While a thread waits it serves the calls of tools that asked for the main
thread (`call_on_main`). `RunQueue` lets runs of one agent follow each other, whatever loop or thread they come from.
"""

from __future__ import annotations

import asyncio
import atexit
import signal
import sys
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import CancelledError as FutureCancelled
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, nullcontext, suppress
from contextvars import ContextVar, copy_context
from queue import Empty, SimpleQueue
from typing import Any, TypeVar
from weakref import WeakValueDictionary

T = TypeVar("T")

#: Seconds between two looks at the clock while a thread waits, so that Ctrl-C arrives on every platform.
SLICE = 0.1
#: How long a cancelled coroutine may take to clean up before the waiting thread goes on without it.
GRACE = 2.0

_lock = threading.Lock()
#: The one background loop of the process and its thread, once there is one.
_running: list[tuple[asyncio.AbstractEventLoop, threading.Thread]] = []

#: What the main thread is to run while it waits; None only wakes it up.
_main_calls: SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = SimpleQueue()
#: Whether the current run is driven by a main thread that waits for it, now and then or all the time.
_main_waits: ContextVar[bool] = ContextVar("nbagent_main_waits", default=False)

#: Event loops whose threads wait in `run_sync` for what is running here: nothing else happens on them meanwhile.
held_up: ContextVar[frozenset[asyncio.AbstractEventLoop]] = ContextVar("nbagent_held_up", default=frozenset())


def background_loop() -> asyncio.AbstractEventLoop:
    """The running background loop, started at first use (and anew in a forked child) in a daemon thread."""
    with _lock:
        if not _running or not _running[0][1].is_alive():
            loop = asyncio.new_event_loop()
            thread = threading.Thread(target=loop.run_forever, name="nbagent-loop", daemon=True)
            thread.start()
            atexit.register(_end, loop, thread)
            _running[:] = [(loop, thread)]
        return _running[0][0]


def _end(loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    """At the interpreter's end: cancel what still runs and close what was opened on the loop, as `asyncio.run` does."""
    if not thread.is_alive():  # in a forked child
        return

    async def finish() -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await loop.shutdown_asyncgens()
        loop.stop()

    asyncio.run_coroutine_threadsafe(finish(), loop)
    thread.join(GRACE)
    if not thread.is_alive():
        loop.close()


def run_sync(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the background loop and wait for it. Ctrl-C cancels it, then raises KeyboardInterrupt."""
    loop, here = background_loop(), _running_loop()
    if here is loop:
        coroutine.close()
        raise RuntimeError("a blocking call from inside the background loop would wait for itself: use `await` here")
    context = copy_context()
    if here is not None:
        context.run(held_up.set, held_up.get() | {here})
    on_main = threading.current_thread() is threading.main_thread()
    if on_main:
        context.run(_main_waits.set, True)
    done: Future[T] = Future()
    tasks: list[asyncio.Task[None]] = []
    try:
        loop.call_soon_threadsafe(lambda: tasks.append(loop.create_task(_report(coroutine, done), context=context)))
        (_serve if on_main else _wait_in_slices)(done)
    except BaseException:
        loop.call_soon_threadsafe(lambda: [task.cancel() for task in tasks])
        _wait(done)
        raise
    try:
        return done.result()
    except FutureCancelled:
        raise asyncio.CancelledError from None


async def _report(coroutine: Coroutine[Any, Any, T], done: Future[T]) -> None:
    """Run it and tell the waiting thread how it ended. Nothing leaves the task: SystemExit would end the loop."""
    try:
        result = await coroutine
    except asyncio.CancelledError:
        done.cancel()
        done.set_running_or_notify_cancel()
    except BaseException as error:  # noqa: BLE001  nothing is lost: `run_sync` raises it, SystemExit too
        done.set_exception(error)
    else:
        done.set_result(result)
    if _main_waits.get():
        _main_calls.put(None)


def _wait_in_slices(done: Future[Any]) -> None:
    while not done.done():
        with suppress(TimeoutError, FutureCancelled):
            done.exception(timeout=SLICE)


def _serve(done: Future[Any]) -> None:
    """Wait until `done` on the main thread, running what comes in for it."""
    while not done.done():
        try:
            item = _main_calls.get(timeout=SLICE)
        except Empty:
            continue
        if item is None:
            continue
        func, answer = item
        if not answer.set_running_or_notify_cancel():
            continue
        try:
            answer.set_result(func())
        except KeyboardInterrupt:
            answer.set_exception(asyncio.CancelledError())
            raise
        except BaseException as error:  # noqa: BLE001  nothing is lost: `call_on_main` raises it
            answer.set_exception(error)


def _wait(done: Future[Any]) -> None:
    with suppress(FutureCancelled, TimeoutError):
        done.exception(timeout=GRACE)


async def call_on_main(func: Callable[[], T]) -> T:
    """Run `func` on the main thread: of the caller that waits in `run_sync`, or here, if this loop runs on it.

    Raises RuntimeError where nobody serves the main thread. Ctrl-C inside `func` cancels the run.
    """
    if threading.current_thread() is not threading.main_thread():
        if _main_waits.get():
            context = copy_context()
            answer: Future[T] = Future()
            _main_calls.put((lambda: context.run(func), answer))
            return await asyncio.wrap_future(answer)
        raise RuntimeError("nobody serves the main thread: ask from a cell, or with chat_sync() on the main thread")
    with _interruptible():
        try:
            return func()
        except KeyboardInterrupt:
            raise asyncio.CancelledError from None


@contextmanager
def _interruptible() -> Iterator[None]:
    """While it lasts, SIGINT raises KeyboardInterrupt at once, whoever handles it otherwise."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def heartbeat() -> AbstractAsyncContextManager[None]:
    """While it lasts, a kernel's event loop wakes up now and then, to see what a signal's handler asked for.

    ipykernel's handler cancels the task of a cell, but does not wake the loop (ipython/ipykernel#881): without this the
    stop button would not end a cell that awaits a silent model. On other threads there are no signals.
    """
    in_kernel = "ipykernel" in sys.modules and threading.current_thread() is threading.main_thread()
    return _beating(asyncio.get_running_loop()) if in_kernel else nullcontext()


@asynccontextmanager
async def _beating(loop: asyncio.AbstractEventLoop) -> AsyncIterator[None]:
    timer: asyncio.TimerHandle

    def beat() -> None:
        nonlocal timer
        timer = loop.call_later(SLICE, beat)

    beat()
    try:
        yield
    finally:
        timer.cancel()


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


class RunQueue:
    """First in, first out, across event loops and threads. `await queue.enter(who)`, later `queue.leave()`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: Who may be in it, weakly, by id; for whoever uses the queue.
        self.members: WeakValueDictionary[int, Any] = WeakValueDictionary()
        self._busy = False
        self._holder: Any = None
        self._waiting: deque[tuple[Future[None], Any]] = deque()

    @property
    def ahead(self) -> list[Any]:
        """Whose turn it is, and who waits for it, in order."""
        with self._lock:
            return [who for who in (self._holder, *(who for _, who in self._waiting)) if who is not None]

    async def enter(self, who: Any = None) -> None:
        """Wait for the turn. A cancelled waiter loses its place and hands on what it may have got."""
        with self._lock:
            if not self._busy:
                self._busy, self._holder = True, who
                return
            mine: tuple[Future[None], Any] = Future(), who
            self._waiting.append(mine)
        try:
            await asyncio.wrap_future(mine[0])
        except asyncio.CancelledError:
            with self._lock:
                waiting = mine in self._waiting
                if waiting:
                    self._waiting.remove(mine)
            if not waiting and not mine[0].cancelled():  # the turn had just come
                self.leave()
            raise

    def leave(self) -> None:
        """Let the next one in."""
        with self._lock:
            while self._waiting:
                following, self._holder = self._waiting.popleft()
                if following.set_running_or_notify_cancel():
                    following.set_result(None)
                    return
            self._busy, self._holder = False, None
