"""Whether a function's CPU time grows with the size of what it gets, as n log n does, or with its square."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

#: Characters of the short text, and how many times larger the large input is.
SHORT, TIMES = 1_500, 8
#: A square grows 64 times. CPU seconds that say nothing are forgiven.
MOST, FORGIVEN_S = 3 * TIMES, 0.05


def grows_with_square(function: Callable[[str], object], pattern: str) -> str:
    """How the time for a repeated pattern grew, if it is more than n log n; else an empty text."""
    short = pattern * (SHORT // len(pattern) + 1)
    grew = grown(function, short, short * TIMES, time.thread_time)
    return grew and f"{pattern!r}: {grew}"


def grown(function: Callable[[T], object], small: T, large: T, clock: Callable[[], float]) -> str:
    """How the CPU time grew from a small input to one of `TIMES` its size, if it is more than n log n; else empty."""
    for _ in range(3):  # other work on the machine disturbs a measurement
        before, after = _cpu_s(function, small, clock), _cpu_s(function, large, clock)
        if after <= MOST * before + FORGIVEN_S:
            return ""
    return f"{after / before:.0f} times as long for {TIMES} times the size ({after:.2f} s)"


def _cpu_s(function: Callable[[T], object], given: T, clock: Callable[[], float]) -> float:
    start = clock()
    function(given)
    return clock() - start
