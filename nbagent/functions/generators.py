"""What a generator, or a lazy `map`, yields, as a list. One without an end is stopped before it fills the memory."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Iterator
from types import GeneratorType
from typing import Any

MOST_ITEMS = 1_000_000
_LAZY = (GeneratorType, map, filter, zip, enumerate)


def is_lazy(value: Any) -> bool:
    """Whether a value says nothing before it is iterated; files, cursors and other iterators are left as they are."""
    return isinstance(value, _LAZY)


def collected(generator: Iterator[Any], over: threading.Event) -> list[Any]:
    """All that it yields, until nobody waits for it any more. Raises ValueError for more than `MOST_ITEMS`."""
    items: list[Any] = []
    for item in generator:
        if over.is_set():
            break
        _add(items, item)
    return items


async def collected_async(generator: AsyncIterator[Any]) -> list[Any]:
    """All that it yields. Raises ValueError for more than `MOST_ITEMS`."""
    items: list[Any] = []
    async for item in generator:
        _add(items, item)
    return items


def _add(items: list[Any], item: Any) -> None:
    if len(items) == MOST_ITEMS:
        raise ValueError(f"it yielded more than {MOST_ITEMS:,} items: a tool must come to an end")
    items.append(item)
