"""Closing whatever iterator a provider gave, so that no connection stays open behind one that nobody reads any more."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from typing import Any, TypeVar

T = TypeVar("T")


def closing(stream: AsyncIterator[T]) -> AbstractAsyncContextManager[AsyncIterator[T]]:
    """A context manager that gives the stream and closes it at the end, if it is of a kind that can be closed.

    >>> async with closing(provider.stream(messages)) as items:                # doctest: +SKIP
    ...     async for item in items: ...
    """
    closable: Any = stream
    return aclosing(closable) if hasattr(stream, "aclose") else nullcontext(stream)
