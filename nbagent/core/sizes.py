"""About how much memory a value takes, found out at once, however large it is."""

from __future__ import annotations

import sys
from itertools import islice
from typing import Any

#: How deep and how wide a nested value is looked at to estimate its size.
_DEPTH, _SAMPLE = 4, 50
#: Columns of a table that are looked at.
_COLUMNS = 1_000
#: Packages whose objects tell their size themselves.
TOLD = frozenset({"numpy", "pandas", "pyarrow"})
_ATOMS = (int, float, bool, type(None), complex, str, bytes, bytearray)


def size_of(value: Any, depth: int = _DEPTH) -> int:
    """About how many bytes a value takes in memory. Of long containers only the first items are looked at.

    >>> size_of(b"x" * 1000) >= 1000
    True
    """
    kind = type(value)
    size = sys.getsizeof(value) if kind.__module__ == "builtins" else object.__sizeof__(value)
    if kind in _ATOMS:
        return size
    if kind.__module__.partition(".")[0] in TOLD:
        return max(size, _told_size(value))
    if depth == 0:
        return size
    if kind is dict:
        inner: Any = [item for pair in islice(value.items(), _SAMPLE) for item in pair]
        count = 2 * len(value)
    elif kind in (list, tuple, set, frozenset):
        inner, count = list(islice(value, _SAMPLE)), len(value)
    else:
        inner = list(getattr(value, "__dict__", {}).values())
        count = len(inner)
    sampled = sum(size_of(item, depth - 1) for item in inner)
    return size + (sampled * count // len(inner) if inner else 0)


def _told_size(value: Any) -> int:
    """The size that an array or table tells, and that of the Python objects in it."""
    is_frame = hasattr(value, "columns") and hasattr(value, "items")
    parts = [column for _, column in islice(value.items(), _COLUMNS)] if is_frame else [value]
    size = 0
    for part in parts:
        size += int(getattr(part, "nbytes", 0))
        if str(getattr(part, "dtype", "")) == "object" and part.size:
            sample = list(islice(getattr(part, "flat", part), _SAMPLE))
            size += sum(size_of(item, 2) for item in sample) * part.size // len(sample)
    return size * len(value.columns) // len(parts) if is_frame and parts else size
