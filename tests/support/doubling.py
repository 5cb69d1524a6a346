"""Whether a function's CPU time grows with the size of a text, as n log n does, or with its square."""

from __future__ import annotations

import time
from collections.abc import Callable

#: Characters of the short text, and how many times longer the long one is.
SHORT, TIMES = 1_500, 8
#: A square grows 64 times. CPU seconds that say nothing are forgiven.
MOST, FORGIVEN_S = 3 * TIMES, 0.05


def grows_with_square(function: Callable[[str], object], pattern: str) -> str:
    """How the time for a repeated pattern grew, if it is more than n log n; else an empty text."""
    short = pattern * (SHORT // len(pattern) + 1)
    long = short * TIMES
    for _ in range(3):  # other work on the machine disturbs a measurement
        before, after = _cpu_s(function, short), _cpu_s(function, long)
        if after <= MOST * before + FORGIVEN_S:
            return ""
    return f"{pattern!r}: {after / before:.0f} times as long for {TIMES} times the text ({after:.2f} s)"


def _cpu_s(function: Callable[[str], object], text: str) -> float:
    start = time.thread_time()
    function(text)
    return time.thread_time() - start
