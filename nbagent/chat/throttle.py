"""Limits how often a display is updated: a fast model sends more events than can be painted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic

#: Seconds between two updates of a display. Larger displays are updated less often.
INTERVAL_S = 1 / 15
#: Seconds without painting for each second of painting: hostile Markdown may take long.
PAUSE = 4
#: Characters per second that a display may send while it streams, and the overhead of each message.
CHARS_PER_SECOND, OVERHEAD_CHARS = 28_000, 800


class Throttle:
    """Calls `paint` when there is something new, at most 15 times a second, or less often if painting is slow.

    `paint()` returns the number of characters sent. Call all methods on one event loop.
    """

    def __init__(self, paint: Callable[[], int]) -> None:
        self._paint = paint
        self._next = 0.0
        self._ticking = False
        self._timer: asyncio.TimerHandle | None = None

    def request(self, at_once: bool = False) -> None:
        """Paint as soon as the limits allow. With `at_once`, paint immediately, for example for an answer's first
        words.
        """
        if self._timer is not None and not at_once:
            return
        wait = self._next - monotonic()
        if wait <= 0 or at_once:
            self.now()
        else:
            self._timer = asyncio.get_running_loop().call_later(wait, self.now)

    def every_second(self, condition: Callable[[], bool]) -> None:
        """Request a paint every second while the condition is true, to update elapsed times."""
        if not self._ticking:
            self._ticking = True
            asyncio.get_running_loop().call_later(1.0, self._tick, condition)

    def _tick(self, condition: Callable[[], bool]) -> None:
        self._ticking = False
        if condition():
            self.request()
            self.every_second(condition)

    def now(self) -> None:
        """Paint now."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        began = monotonic()
        chars = self._paint()
        ended = monotonic()
        self._next = ended + max(INTERVAL_S, (chars + OVERHEAD_CHARS) / CHARS_PER_SECOND, PAUSE * (ended - began))
