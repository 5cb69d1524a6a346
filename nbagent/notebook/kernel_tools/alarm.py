"""Interrupts code that runs too long on the main thread, even during a computation."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class CellTimeoutError(BaseException):
    """The code ran too long. This is not an `Exception`, so the code can't catch it with `except Exception`."""


@contextmanager
def alarm(seconds: float, ring: Callable[[], None]) -> Iterator[None]:
    """Call `ring` if the block takes longer than `seconds`. The timer works only on the main thread, and not on
    Windows.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return
    before = signal.signal(signal.SIGALRM, lambda *_: ring())
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
