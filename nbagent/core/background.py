"""The background event loop, and the functions with which other threads use it and wait for it.

Blocking code (a script, a plain `for`, a magic under `%%time`) runs a coroutine with `run_sync`, even if another event
loop is running in the same thread. While the main thread waits there, it runs the tools that need the main thread
(`call_on_main`). For a panel, the kernel's own event loop runs them.
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
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import copy_context
from functools import partial, wraps
from queue import Empty, SimpleQueue
from typing import Any, ParamSpec, TypeVar

from nbagent.core.browser import IN_BROWSER, wait_in_browser
from nbagent.core.current import context_with, current
from nbagent.core.interrupting import GRACE_S, Interruptible

P = ParamSpec("P")
T = TypeVar("T")

#: Seconds after which a waiting thread wakes up briefly, so that Ctrl-C works on every platform.
POLL_S = 0.1
#: Seconds that a cancelled coroutine may take to clean up before the waiting thread continues without it.
CLEANUP_S = 2.0

_lock = threading.Lock()
#: The one background loop of the process and its thread, once there is one.
_running: list[tuple[asyncio.AbstractEventLoop, threading.Thread]] = []

#: The main thread's queue while it waits; None only wakes the thread.
_main_calls: SimpleQueue[_MainCall | None] = SimpleQueue()
#: The loop that runs on the main thread as long as the process lives: a kernel's, if there is one.
_main_loop: list[asyncio.AbstractEventLoop] = []
#: Progress text of a tool that needs the main thread while a cell runs there.
WAITING_FOR_MAIN = "waiting for the running cell to end"


def background_loop() -> asyncio.AbstractEventLoop:
    """Return the background loop. It starts on first use, in a daemon thread. A forked child process starts its own."""
    if IN_BROWSER:  # there is only one loop
        return asyncio.get_running_loop()
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
    if IN_BROWSER:
        return wait_in_browser(coroutine)
    loop = background_loop()
    if running_loop() is loop:
        coroutine.close()
        raise RuntimeError("a blocking call on the background loop would wait for itself: use `await` here")
    here, on_main = current.get(), threading.current_thread() is threading.main_thread()
    context = context_with(
        blocked_threads=here.blocked_threads | {threading.get_ident()}, main_waits=here.main_waits or on_main
    )
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


def blocking(function: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    """Return the blocking variant of an async function or method, as in `chat_sync = blocking(chat)`. Overloads are
    kept.

    A method's variant calls the subclass's override, if there is one.
    """
    name: str = function.__name__
    code: Any = getattr(function, "__code__", None)
    is_method = code is not None and code.co_varnames[:1] == ("self",)

    @wraps(function)
    def variant(*args: P.args, **kwargs: P.kwargs) -> T:
        if is_method and args:
            latest: Coroutine[Any, Any, T] = getattr(args[0], name)(*args[1:], **kwargs)
            return run_sync(latest)
        return run_sync(function(*args, **kwargs))

    variant.__name__, variant.__qualname__ = f"{name}_sync", f"{function.__qualname__}_sync"
    variant.__doc__ = f"Blocking variant of `{name}`, for scripts and for cells without `await`."
    return variant


async def _report(coroutine: Coroutine[Any, Any, T], done: Future[T]) -> None:
    """Run the coroutine and hand its result or error to the waiting thread."""
    try:
        result = await coroutine
    except asyncio.CancelledError:
        done.cancel()
        done.set_running_or_notify_cancel()
    except BaseException as error:  # noqa: BLE001  `run_sync` raises it; SystemExit would end the loop here
        done.set_exception(error)
    else:
        done.set_result(result)
    if current.get().main_waits:
        _main_calls.put(None)


def _poll(done: Future[Any]) -> None:
    while not done.done():
        with suppress(TimeoutError, FutureCancelled):
            done.exception(timeout=POLL_S)


def _serve(done: Future[Any]) -> None:
    """Wait until `done`. Until then, run other threads' functions on the main thread."""
    while not done.done():
        with suppress(Empty):
            if (call := _main_calls.get(timeout=POLL_S)) is not None:
                call.run()


class _MainCall:
    """A function for the main thread, in a copy of the caller's context."""

    def __init__(self, func: Callable[[], Any]) -> None:
        self._func, self._context = func, copy_context()
        self._interruptible = Interruptible()
        self.answer: Future[Any] = Future()

    def run(self) -> None:
        """Run it, unless it has started or nobody waits for it. Ctrl-C cancels it and raises KeyboardInterrupt."""
        if self.answer.running() or self.answer.done() or not self.answer.set_running_or_notify_cancel():
            return
        try:
            with _interruptible():
                self.answer.set_result(self._interruptible.run(partial(self._context.run, self._func)))
        except KeyboardInterrupt:
            self.answer.set_exception(asyncio.CancelledError())
            if not self._interruptible.is_interrupted:  # the user's Ctrl-C
                raise
        except BaseException as error:  # noqa: BLE001  `call_on_main` raises it; without it the caller would wait for ever
            self.answer.set_exception(error)

    def interrupt(self) -> None:
        """End it as Ctrl-C does, or prevent it from starting."""
        if not self.answer.cancel():
            self._interruptible.interrupt()

    def run_on_loop(self) -> None:
        """Run it as a callback of a kernel's loop, which continues after Ctrl-C."""
        with suppress(KeyboardInterrupt):
            self.run()


def note_main_loop() -> None:
    """If this is the main thread, let other threads run functions on its event loop. Notebooks call this."""
    here = running_loop()
    if here is not None and threading.current_thread() is threading.main_thread():
        _main_loop[:] = [here]


async def call_on_main(func: Callable[[], T]) -> T:
    """Run `func` on the main thread. From another thread, this works if the main thread is waiting for this run or is
    running an event loop.

    A kernel that is busy with a cell runs `func` once the cell awaits something or ends. Raises `RuntimeError` if the
    main thread is neither waiting for this run nor running a kernel's event loop. Ctrl-C inside `func` cancels the run.
    """
    if threading.current_thread() is threading.main_thread():
        with _interruptible():
            try:
                return func()
            except KeyboardInterrupt:
                raise asyncio.CancelledError from None
    call, main_waits = _MainCall(func), current.get().main_waits
    if not (main_waits or _main_loop):
        raise RuntimeError(
            "the main thread is not waiting for this run: send the prompt from a cell, or call chat_sync() on the main "
            "thread"
        )
    if main_waits:
        _main_calls.put(call)
    for loop in _main_loop:
        loop.call_soon_threadsafe(call.run_on_loop)
    return await _wait_for_main(asyncio.wrap_future(call.answer), call.answer.running, call.interrupt)


async def await_on_main(make: Callable[[], Coroutine[Any, Any, T]], stop: Callable[[], None]) -> T:
    """Await a coroutine on the kernel's event loop, which runs on the main thread.

    A kernel that is busy with a cell starts the coroutine once the cell awaits something or ends. If the caller is
    cancelled on another thread, `stop` is called, and the coroutine has a moment to end. Raises `RuntimeError` if there
    is no kernel event loop, or if the main thread is blocked by this run.
    """
    if not _main_loop or current.get().main_waits:
        raise RuntimeError("the main thread is blocked by this run: use `await`, or a separate %%agent cell")
    if running_loop() is _main_loop[0]:
        return await make()
    started = threading.Event()

    async def start() -> T:
        started.set()
        return await make()

    answer = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(start(), _main_loop[0]))
    return await _wait_for_main(answer, started.is_set, lambda: stop() if started.is_set() else answer.cancel())


async def _wait_for_main(
    answer: asyncio.Future[T], has_started: Callable[[], bool], interrupt: Callable[[], object]
) -> T:
    """The result of work on the main thread. Reports the wait until the work starts. Cancelling interrupts the work."""
    answer.add_done_callback(lambda done: done.cancelled() or done.exception())  # or asyncio logs an unread error
    try:
        await asyncio.wait({answer}, timeout=POLL_S)
        if not (answer.done() or has_started()):
            current.get().call.report(WAITING_FOR_MAIN)
            while not (answer.done() or has_started()):
                await asyncio.wait({answer}, timeout=POLL_S)
            current.get().call.report("")
        await asyncio.wait({answer})
    except asyncio.CancelledError:
        interrupt()
        await asyncio.wait({answer}, timeout=GRACE_S)
        raise
    return answer.result()


@contextmanager
def _interruptible() -> Iterator[None]:
    """SIGINT raises KeyboardInterrupt immediately inside this block, whatever handler is installed."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@asynccontextmanager
async def heartbeat() -> AsyncIterator[None]:
    """Wake a kernel's event loop regularly during a block.

    ipykernel's signal handler cancels a cell's task, but does not wake the loop (ipython/ipykernel#881). Without
    regular wake-ups, the stop button would not end a cell that awaits a silent model. On other threads, this does
    nothing, because they receive no signals.
    """
    timer: asyncio.TimerHandle | None = None

    def beat() -> None:
        nonlocal timer
        timer = asyncio.get_running_loop().call_later(POLL_S, beat)

    if "ipykernel" in sys.modules and threading.current_thread() is threading.main_thread():
        beat()
    try:
        yield
    finally:
        if timer is not None:
            timer.cancel()


def running_loop() -> asyncio.AbstractEventLoop | None:
    """The running event loop of this thread, or None."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
