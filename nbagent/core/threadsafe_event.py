"""`ThreadsafeEvent`: an `asyncio.Event` that any thread can set."""

from __future__ import annotations

import asyncio
from contextlib import suppress


class ThreadsafeEvent(asyncio.Event):
    """An event that belongs to the running event loop."""

    def __init__(self) -> None:
        super().__init__()
        self._home = asyncio.get_running_loop()

    def set_from_thread(self) -> None:
        """Set the event from any thread. This takes effect when the event loop next runs."""
        with suppress(RuntimeError):  # its loop is closed
            self._home.call_soon_threadsafe(self.set)
