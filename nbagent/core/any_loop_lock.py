"""A lock for coroutines that run on different event loops: asyncio's own belongs to one."""

from __future__ import annotations

import asyncio
import threading

#: Seconds between two attempts to get it. What holds it takes milliseconds.
AGAIN_S = 0.02


class AnyLoopLock:
    """`async with lock`: a cell's code runs on the kernel's loop, a panel's on the background loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    async def __aenter__(self) -> None:
        while not self._lock.acquire(blocking=False):  # noqa: ASYNC110  an asyncio.Event would wake one loop only
            await asyncio.sleep(AGAIN_S)

    async def __aexit__(self, *_: object) -> None:
        self._lock.release()
