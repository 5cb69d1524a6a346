"""The background event loop, and the ways between it and the threads that wait for it.

Blocking code (a script, a plain `for`, a magic under `%%time`) runs a coroutine with `run_sync`, even if another event
loop is running in the same thread. While the main thread waits there, it runs the tools that need the main thread
(`call_on_main`).
"""

from __future__ import annotations

import asyncio
import atexit
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import CancelledError as FutureCancelled
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, nullcontext, suppress
from contextvars import ContextVar, copy_context
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")

#: Seconds after which a waiting thread wakes up briefly, so that Ctrl-C arrives on every platform.
POLL_S = 0.1
#: Seconds that a cancelled coroutine may take to clean up before the waiting thread goes on without it.
CLEANUP_S = 2.0

_lock = threading.Lock()
#: The one background loop of the process and its thread, once there is one.
_running: list[tuple[asyncio.AbstractEventLoop, threading.Thread]] = []

#: What the main thread runs while it waits; None only wakes it up.
_main_calls: SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = SimpleQueue()
#: Whether a main thread waits for the current run, all the time or from one event to the next.
_main_waits: ContextVar[bool] = ContextVar("nbagent_main_waits", default=False)

#: The event loops that are blocked because their threads wait in `run_sync` for the current code.
blocked_loops: ContextVar[frozenset[asyncio.AbstractEventLoop]] = ContextVar(
    "nbagent_blocked_loops", default=frozenset()
)


def background_loop() -> asyncio.AbstractEventLoop:
    """The background loop. It starts at first use, in a daemon thread; a forked child starts its own."""
    with _lock:
        if not _running or not _running[0][1].is_alive():
            loop = asyncio.new_event_loop()
            thread = threading.Thread(target=loop.run_forever, name="nbagent-loop", daemon=True)
            thread.start()
            atexit.register(_end, loop, thread)
            _running[:] = [(loop, thread)]
        return _running[0][0]


def _end(loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    """Cancel and close everything on the loop when the interpreter exits, as `asyncio.run` does."""
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
    thread.join(CLEANUP_S)
    if not thread.is_alive():
        loop.close()


def run_sync(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the background loop and wait for it. Ctrl-C cancels it, then raises KeyboardInterrupt."""
    loop, here = background_loop(), _running_loop()
    if here is loop:
        coroutine.close()
        raise RuntimeError("a blocking call on the background loop would wait for itself: use `await` here")
    context = copy_context()
    if here is not None:
        context.run(blocked_loops.set, blocked_loops.get() | {here})
    on_main = threading.current_thread() is threading.main_thread()
    if on_main:
        context.run(_main_waits.set, True)
    done: Future[T] = Future()
    tasks: list[asyncio.Task[None]] = []
    try:
        loop.call_soon_threadsafe(lambda: tasks.append(loop.create_task(_report(coroutine, done), context=context)))
        (_serve if on_main else _poll)(done)
    except BaseException:
        loop.call_soon_threadsafe(lambda: [task.cancel() for task in tasks])
        with suppress(FutureCancelled, TimeoutError):
            done.exception(timeout=CLEANUP_S)
        raise
    try:
        return done.result()
    except FutureCancelled:
        raise asyncio.CancelledError from None


async def _report(coroutine: Coroutine[Any, Any, T], done: Future[T]) -> None:
    """Run the coroutine and hand its result or error to the waiting thread. SystemExit in a task would end the loop."""
    try:
        result = await coroutine
    except asyncio.CancelledError:
        done.cancel()
        done.set_running_or_notify_cancel()
    except BaseException as error:  # noqa: BLE001  handed to the waiting thread, where `run_sync` raises it
        done.set_exception(error)
    else:
        done.set_result(result)
    if _main_waits.get():
        _main_calls.put(None)


def _poll(done: Future[Any]) -> None:
    while not done.done():
        with suppress(TimeoutError, FutureCancelled):
            done.exception(timeout=POLL_S)


def _serve(done: Future[Any]) -> None:
    """Wait until `done`, and meanwhile run what others need run on the main thread."""
    while not done.done():
        try:
            item = _main_calls.get(timeout=POLL_S)
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
        except BaseException as error:  # noqa: BLE001  handed to the caller, where `call_on_main` raises it
            answer.set_exception(error)


async def call_on_main(func: Callable[[], T]) -> T:
    """Run `func` on the main thread: right here if this loop runs there, else where it waits in `run_sync`.

    Raises `RuntimeError` if the main thread does not wait for this run. Ctrl-C inside `func` cancels the run.
    """
    if threading.current_thread() is not threading.main_thread():
        if _main_waits.get():
            context = copy_context()
            answer: Future[T] = Future()
            _main_calls.put((lambda: context.run(func), answer))
            return await asyncio.wrap_future(answer)
        raise RuntimeError("the main thread does not wait for this run: ask from a cell, or call chat_sync() there")
    with _interruptible():
        try:
            return func()
        except KeyboardInterrupt:
            raise asyncio.CancelledError from None


@contextmanager
def _interruptible() -> Iterator[None]:
    """SIGINT raises KeyboardInterrupt at once inside this block, whatever handler is installed."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def heartbeat() -> AbstractAsyncContextManager[None]:
    """Wakes a kernel's event loop up regularly inside this block.

    ipykernel's signal handler cancels the task of a cell, but does not wake the loop (ipython/ipykernel#881). Without
    this the stop button would not end a cell that awaits a silent model. Other threads receive no signals.
    """
    in_kernel = "ipykernel" in sys.modules and threading.current_thread() is threading.main_thread()
    return _beating(asyncio.get_running_loop()) if in_kernel else nullcontext()


@asynccontextmanager
async def _beating(loop: asyncio.AbstractEventLoop) -> AsyncIterator[None]:
    timer: asyncio.TimerHandle

    def beat() -> None:
        nonlocal timer
        timer = loop.call_later(POLL_S, beat)

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
