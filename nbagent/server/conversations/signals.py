"""Wakes tasks of this process at once; what other processes change, they see when they look the next time."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Iterator
from contextlib import contextmanager


class Signals:
    """Events by name, which exist as long as somebody listens.

    >>> signals = Signals()
    >>> with signals.listening("a") as event:
    ...     signals.send("a")
    ...     event.is_set()
    True
    """

    def __init__(self) -> None:
        self._listeners: dict[Hashable, list[asyncio.Event]] = {}

    @contextmanager
    def listening(self, name: Hashable) -> Iterator[asyncio.Event]:
        """An event that each `send` of this name sets."""
        event = asyncio.Event()
        self._listeners.setdefault(name, []).append(event)
        try:
            yield event
        finally:
            self._listeners[name].remove(event)
            if not self._listeners[name]:
                del self._listeners[name]

    def is_first(self, name: Hashable, event: asyncio.Event) -> bool:
        """Whether nobody has listened for longer."""
        return self._listeners[name][0] is event

    def send(self, name: Hashable) -> None:
        """Wake all who listen."""
        for event in self._listeners.get(name, ()):
            event.set()
