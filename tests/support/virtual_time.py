"""An event loop whose clock goes on at once to the next timer when nobody has anything else to do."""

import asyncio
import selectors


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Hours pass in no time, always in the same order. Only for code that waits for nothing outside."""

    def __init__(self):
        super().__init__(_Selector(self))
        self.now = 0.0

    def time(self):
        return self.now


class _Selector(selectors.DefaultSelector):
    def __init__(self, loop):
        super().__init__()
        self._loop = loop

    def select(self, timeout=None):
        events = super().select(0)
        if not events:
            if timeout is None:
                raise AssertionError("everybody waits, and nobody will wake them")
            self._loop.now += timeout
        return events


def run_virtually(coroutine):
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(coroutine)
