"""Reads an async iterator in its own context."""

from __future__ import annotations

import types
from collections.abc import AsyncIterator, Awaitable, Generator
from contextvars import Context
from functools import partial
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class InContext(Generic[T]):
    """The items of `stream`, whose code runs in `context` whoever reads it.

    An async generator has no context of its own: it runs in the context of the code that reads the next item. Here it
    runs in `context`, where its changes persist without affecting the reader.
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
    go_on = partial(steps.send, None)
    while True:
        try:
            waits_for = context.run(go_on)
        except StopIteration as end:
            value: T = end.value
            return value
        try:
            go_on = partial(steps.send, (yield waits_for))
        except BaseException as error:  # noqa: BLE001  passed to the awaitable, as `await` does (PEP 380)
            go_on = partial(steps.throw, error)
