"""Reads async iterators in a given context, closes them, and keeps them from blocking the event loop."""

from __future__ import annotations

import asyncio
import types
from collections.abc import AsyncIterator, Awaitable, Generator
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from contextvars import Context
from functools import partial
from time import monotonic
from typing import Any, Generic, TypeVar

T = TypeVar("T")

#: Seconds that an iterator may block the event loop.
HOLD_S = 0.1


def aclose_if_possible(stream: AsyncIterator[T]) -> AbstractAsyncContextManager[AsyncIterator[T]]:
    """Return a context manager that yields the stream, and closes it at the end if it has an `aclose()` method.

    >>> async with aclose_if_possible(provider.stream(request)) as items:      # doctest: +SKIP
    ...     async for item in items: ...
    """
    closable: Any = stream
    return aclosing(closable) if hasattr(stream, "aclose") else nullcontext(stream)


class YieldPoint:
    """Lets timeouts and other tasks run: await `yield_point.pass_on()` after each item.

    Otherwise, a user's iterator that never waits would block them.
    """

    __slots__ = ("_due",)

    def __init__(self) -> None:
        self._due = monotonic() + HOLD_S

    async def pass_on(self) -> None:
        """Let the event loop run if it has not run for `HOLD_S`. May raise CancelledError, like any `await`."""
        if monotonic() > self._due:
            await asyncio.sleep(0)
            self._due = monotonic() + HOLD_S


class InContext(Generic[T]):
    """Iterates over `stream`, and always runs its code in `context`.

    An async generator has no context of its own: it runs in the context of the code that reads the next item. This
    class runs it in `context`, where its changes persist without affecting the reader.
    """

    def __init__(self, stream: AsyncIterator[T], context: Context) -> None:
        self._stream, self._context = stream, context

    def __aiter__(self) -> InContext[T]:
        return self

    def __anext__(self) -> Awaitable[T]:
        return _step(self._stream.__anext__(), self._context)

    async def aclose(self) -> None:
        """Close the stream in its context."""
        if (aclose := getattr(self._stream, "aclose", None)) is not None:
            await _step(aclose(), self._context)


@types.coroutine
def _step(awaitable: Awaitable[T], context: Context) -> Generator[Any, Any, T]:
    """Await something so that every step of it runs in `context`."""
    steps: Any = awaitable.__await__()
    resume = partial(steps.send, None)
    while True:
        try:
            waits_for = context.run(resume)
        except StopIteration as end:
            value: T = end.value
            return value
        try:
            resume = partial(steps.send, (yield waits_for))
        except BaseException as error:  # noqa: BLE001  whatever is thrown in goes on to the awaitable, as `await` does
            resume = partial(steps.throw, error)
