"""Awaits a coroutine in an async cell so that the kernel's stop button always works.

A typed `%%agent` cell becomes an async cell (see `extension`). The coroutine runs on the kernel's own loop, which can
still handle clicks. An ipykernel interrupt does not wake an idle loop (ipython/ipykernel#881), so this module installs
a SIGINT handler that wakes it. Everywhere else (`%%time`, `%%capture`, a call from a function), the background loop
runs the coroutine.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from nbagent.notebook.magics.cell_errors import readable

T = TypeVar("T")

#: Seconds between two checks of the interrupt flag, in case the handler is not called.
HEARTBEAT_S = 0.25
#: Seconds that a cancelled coroutine may take to clean up.
GRACE_S = 2.0


async def run_in_cell(coroutine: Coroutine[Any, Any, T]) -> T:
    """Await a coroutine in an async cell. SIGINT cancels the coroutine, and KeyboardInterrupt is raised when it has
    cleaned up.

    A second SIGINT raises KeyboardInterrupt immediately.
    """
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(coroutine)
    is_main_thread = threading.current_thread() is threading.main_thread()
    stopped_twice = loop.create_future()

    def stop() -> None:
        if task.cancelling() and not stopped_twice.done():
            stopped_twice.set_result(None)
        task.cancel()

    def on_interrupt(*_: object) -> None:
        loop.call_soon_threadsafe(stop)  # writes to the loop's self-pipe, which wakes it

    before = signal.signal(signal.SIGINT, on_interrupt) if is_main_thread else None
    try:
        while not task.done() and not stopped_twice.done():
            await asyncio.wait({task, stopped_twice}, timeout=HEARTBEAT_S, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise KeyboardInterrupt("the agent was interrupted and is still cleaning up")
        return task.result()
    except KeyboardInterrupt as interrupt:
        raise readable(interrupt) from None
    except asyncio.CancelledError:
        if not task.done():  # the host's own handler cancelled the cell
            task.cancel()
            await asyncio.wait({task}, timeout=GRACE_S)
        raise readable(KeyboardInterrupt("the agent was interrupted")) from None
    finally:
        if is_main_thread:
            signal.signal(signal.SIGINT, before)
