"""Watches the notebook's cells for the panels: when one has ended, and when one keeps the kernel from taking clicks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from nbagent.core.background import background_loop

#: Seconds that a cell may run before it is asked whether the kernel is free, and that the answer may take.
PATIENCE = 1.0


class CellWatch:
    """`ended` is called after each cell, `changed` when `blocked` has changed: all on the background loop."""

    def __init__(self, shell: Any, ended: Callable[[], None], changed: Callable[[], None]) -> None:
        self.blocked = False
        self._shell = shell
        self._ended = ended
        self._changed = changed
        self._kernel: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        if shell is not None:
            shell.events.register("pre_run_cell", self._begins)
            shell.events.register("post_run_cell", self._ends)

    def close(self) -> None:
        """Watch no more."""
        if self._shell is not None:
            self._shell.events.unregister("pre_run_cell", self._begins)
            self._shell.events.unregister("post_run_cell", self._ends)
            self._shell = None

    def _begins(self, *_: Any) -> None:
        try:
            self._kernel = asyncio.get_running_loop()
        except RuntimeError:  # a terminal has no clicks
            return
        background_loop().call_soon_threadsafe(self._start)

    def _ends(self, *_: Any) -> None:
        background_loop().call_soon_threadsafe(self._stop)

    def _start(self) -> None:
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._watch())

    def _stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None
        self._set(blocked=False)
        self._ended()

    async def _watch(self) -> None:
        """An async cell leaves the kernel's loop free, and any other does not."""
        while self._kernel is not None:
            await asyncio.sleep(PATIENCE)
            free = asyncio.Event()
            here = asyncio.get_running_loop()
            self._kernel.call_soon_threadsafe(here.call_soon_threadsafe, free.set)
            try:
                async with asyncio.timeout(PATIENCE):
                    await free.wait()
            except TimeoutError:
                self._set(blocked=True)
                await free.wait()
            self._set(blocked=False)

    def _set(self, *, blocked: bool) -> None:
        if blocked != self.blocked:
            self.blocked = blocked
            self._changed()
