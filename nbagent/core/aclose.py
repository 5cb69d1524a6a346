"""Closes async iterators of any kind, so no connection stays open after the last reader."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from typing import Any, TypeVar

T = TypeVar("T")


def aclose_if_possible(stream: AsyncIterator[T]) -> AbstractAsyncContextManager[AsyncIterator[T]]:
    """A context manager that returns the stream and closes it at the end if it has `aclose()`.

    >>> async with aclose_if_possible(provider.stream(request)) as items:      # doctest: +SKIP
    ...     async for item in items: ...
    """
    closable: Any = stream
    return aclosing(closable) if hasattr(stream, "aclose") else nullcontext(stream)
