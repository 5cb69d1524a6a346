"""`Waiter`: somebody on an event loop who waits until another thread or task says that things have changed."""

from __future__ import annotations

import asyncio
from contextlib import suppress


class Waiter:
    """Somebody who waits, on an event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.woken = asyncio.Event()

    def wake(self) -> None:
        """Let it look again; from any thread."""
        with suppress(RuntimeError):  # its loop is closed
            self._loop.call_soon_threadsafe(self.woken.set)
