"""Interrupts a function that runs in another thread, as Ctrl-C interrupts the main thread."""

from __future__ import annotations

import ctypes
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

#: Seconds that a cancelled call waits for its interrupted function to end.
GRACE_S = 0.5


class Interruptible:
    """Calls a function once. `interrupt()`, called from another thread, raises KeyboardInterrupt in the function.

    `interrupt()` has no effect after the function has ended. Python raises the KeyboardInterrupt at the thread's next
    bytecode instruction, so native code, such as a long `time.sleep` outside the main thread, finishes first.

    A function that is traced (for debugging or coverage) is not interrupted: the KeyboardInterrupt might hit the
    tracer, which would never release its lock. On the main thread, even a traced function is interrupted, as by Ctrl-C.

    >>> Interruptible().run(lambda: 7)
    7
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: int | None = None
        #: Whether `interrupt()` has raised a KeyboardInterrupt.
        self.is_interrupted = False

    def run(self, function: Callable[[], T]) -> T:
        """Call the function in this thread."""
        if not _is_traced() or threading.current_thread() is threading.main_thread():
            self._thread = threading.get_ident()
        try:
            try:
                return function()
            finally:
                self._end()
        except KeyboardInterrupt:
            self._end()  # the interrupt may have hit the first call of `_end`; there is only one interrupt
            raise

    def _end(self) -> None:
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None and self.is_interrupted:
            _let_arrive(thread)

    def interrupt(self) -> None:
        """Raise KeyboardInterrupt in the function if it is running. Only the first call has an effect."""
        with self._lock:
            if self._thread is not None and not self.is_interrupted:
                self.is_interrupted = True
                _raise_in(self._thread, KeyboardInterrupt)


def _is_traced() -> bool:
    """Whether a tracer runs its own code between the lines of this thread."""
    monitoring: Any = getattr(sys, "monitoring", None)  # since Python 3.12
    tools = () if monitoring is None else (monitoring.DEBUGGER_ID, monitoring.COVERAGE_ID)
    return sys.gettrace() is not None or any(monitoring.get_tool(tool) for tool in tools)


def _raise_in(thread: int, error: type[BaseException]) -> None:
    """Raise an exception in a thread. On the main thread, it is a signal, which also ends a waiting native call."""
    if _is_main(thread):
        signal.pthread_kill(thread, signal.SIGINT)
    else:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(error))


def _let_arrive(thread: int) -> None:
    """Catch a pending KeyboardInterrupt in this thread, before it can hit later code.

    It can't be withdrawn: CPython 3.11 would keep looking for it, and traced threads would never continue. A second
    interrupt replaces the first and has arrived when this returns.
    """
    if _is_main(thread):
        return
    try:
        _raise_in(thread, KeyboardInterrupt)
        while True:
            time.sleep(0)
    except KeyboardInterrupt:
        return


def _is_main(thread: int) -> bool:
    return thread == threading.main_thread().ident and hasattr(signal, "pthread_kill")
