"""Reads users' iterators that may never wait: timeouts and other tasks still get their turn."""

from __future__ import annotations

import asyncio
from time import monotonic

#: Seconds that an iterator may block the event loop.
HOLD_S = 0.1


class YieldPoint:
    """`await yield_point.pass_on()` after each item lets the event loop run if it was blocked for long."""

    __slots__ = ("_due",)

    def __init__(self) -> None:
        self._due = monotonic() + HOLD_S

    async def pass_on(self) -> None:
        """May raise CancelledError, as every wait may."""
        if monotonic() > self._due:
            await asyncio.sleep(0)
            self._due = monotonic() + HOLD_S
