"""Merges fields of request bodies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def merged(fields: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """The fields and some more, which win. Dicts are merged.

    >>> merged({"a": {"x": 1}, "b": 1}, {"a": {"y": 2}})
    {'a': {'x': 1, 'y': 2}, 'b': 1}
    """
    both = dict(fields)
    for name, value in more.items():
        old = both.get(name)
        both[name] = merged(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return both
