"""The difference between two states as a JSON Merge Patch (RFC 7386), which keeps a page in sync with the kernel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: JSON objects without null: in a patch, null removes a name.
State = Mapping[str, Any]


def merge_patch(before: State, after: State) -> dict[str, Any]:
    """The patch from `before` to `after`. Parts that are the same object in both states are not compared.

    >>> merge_patch({"a": 1, "b": {"c": 2, "d": 3}}, {"b": {"c": 2, "d": 4}})
    {'a': None, 'b': {'d': 4}}
    """
    patch: dict[str, Any] = {name: None for name in before if name not in after}
    for name, value in after.items():
        old = before.get(name)
        if old is value:
            continue
        if isinstance(value, Mapping) and isinstance(old, Mapping):
            if inner := merge_patch(old, value):
                patch[name] = inner
        elif old != value:
            patch[name] = value
    return patch
