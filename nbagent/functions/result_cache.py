"""Results of tools that are marked with `cache_ttl`."""

from __future__ import annotations

import json
import time
from collections import OrderedDict
from typing import Any

from nbagent.functions.binding import is_same

_SIZE = 256


def cache_key(name: str, version: str, arguments: dict[str, Any]) -> str | None:
    """What a result is kept under; None where the arguments have no such form."""
    try:
        return json.dumps([name, version, arguments], sort_keys=True)
    except (TypeError, ValueError):  # Python objects, from a caller that is not a model
        return None


class ResultCache:
    """The latest results that are still fresh, by key; the value sits in a tuple, since None is a value too.

    They are those of one function: another partial or another object's method may have the same source.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[str, tuple[float, Any, Any]] = OrderedDict()

    def get(self, key: str, func: Any) -> tuple[Any] | None:
        """The result in a tuple, if it is fresh and this function made it."""
        expires, value, made_by = self._kept.get(key, (0.0, None, None))
        return (value,) if time.monotonic() < expires and is_same(made_by, func) else None

    def put(self, key: str, value: Any, ttl: float, func: Any) -> None:
        """Keep what `func` gave for `ttl` seconds."""
        self._kept[key] = (time.monotonic() + ttl, value, func)
        self._kept.move_to_end(key)
        while len(self._kept) > _SIZE:
            self._kept.popitem(last=False)
