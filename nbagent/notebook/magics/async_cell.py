"""Awaits a coroutine in an async cell, so that the kernel's stop button always works.

A typed `%%agent` cell becomes an async cell (see `magic`): the coroutine runs on the kernel's own loop, which stays
free for clicks. ipykernel's interrupt does not wake an idle loop by itself (ipython/ipykernel#881), hence a SIGINT
handler of our own that does. Everywhere else (`%%time`, `%%capture`, a call from a function) the background loop runs
it.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

#: Seconds between two looks at the interrupt flag: belt and braces beside the handler.
HEARTBEAT = 0.25


async def run_in_cell(coroutine: Coroutine[Any, Any, T]) -> T:
    """Await a coroutine in an async cell. SIGINT cancels it and raises KeyboardInterrupt when it has cleaned up.

    A second SIGINT does not wait for that.
    """
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(coroutine)
    on_main = threading.current_thread() is threading.main_thread()
    impatient = loop.create_future()

    def stop() -> None:
        if task.cancelling() and not impatient.done():
            impatient.set_result(None)
        task.cancel()

    def interrupt(*_: object) -> None:
        loop.call_soon_threadsafe(stop)  # writes to the loop's self-pipe, so that it wakes up

    before = signal.signal(signal.SIGINT, interrupt) if on_main else None
    try:
        while not task.done() and not impatient.done():
            await asyncio.wait({task, impatient}, timeout=HEARTBEAT, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise KeyboardInterrupt("the agent was interrupted and goes on ending by itself")
        return task.result()
    except asyncio.CancelledError:
        if not task.done():  # the cell itself was cancelled, by the host's own handler
            task.cancel()
            await asyncio.wait({task}, timeout=2.0)
        raise KeyboardInterrupt("the agent was interrupted") from None
    finally:
        if on_main:
            signal.signal(signal.SIGINT, before)
