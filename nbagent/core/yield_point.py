"""Keeps iterators that never wait, such as users' own, from blocking timeouts and other tasks."""

from __future__ import annotations

import asyncio
from time import monotonic

#: Seconds that an iterator may block the event loop.
HOLD_S = 0.1


class YieldPoint:
    """After each item, `await yield_point.pass_on()` lets the event loop run if it has been blocked for long."""

    __slots__ = ("_due",)

    def __init__(self) -> None:
        self._due = monotonic() + HOLD_S

    async def pass_on(self) -> None:
        """Let the event loop run if it is due. May raise CancelledError, like any wait."""
        if monotonic() > self._due:
            await asyncio.sleep(0)
            self._due = monotonic() + HOLD_S
