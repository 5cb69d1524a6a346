"""What tools returned: in memory, then, when there is too much, in the trace's temporary file.

A value is pickled there: the file has no name, and nobody else reads or writes it. If that is not possible, the text
stays that the model read, with a note.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

from nbagent.trace.table import SpillFile

#: How deep and how wide a nested value is looked at to estimate its size.
_DEPTH, _SAMPLE = 4, 50


class Results(Mapping[str, Any]):
    """Values by `tool_call_id`.

    >>> results = Results()
    >>> results.add("tool_1", {"a": 1}, "the text") > 0
    True
    >>> results.spill(SpillFile())
    >>> results["tool_1"]
    {'a': 1}
    """

    def __init__(self) -> None:
        #: Each value with the text that the model read.
        self._kept: dict[str, tuple[Any, str]] = {}
        #: The functions that read the others.
        self._spilled: dict[str, Callable[[], Any]] = {}

    def add(self, tool_call_id: str, value: Any, text: str) -> int:
        """Keep a value; returns about how many bytes it takes."""
        self._kept[tool_call_id] = value, text
        return size_of(value)

    def take(self, other: Results) -> None:
        """Keep the values of another trace too; those in its file stay there."""
        self._kept.update(other._kept)
        self._spilled.update(other._spilled)

    def spill(self, file: SpillFile) -> None:
        """Move the values to the file. Raises OSError; the values that are not written yet stay in memory."""
        for tool_call_id, (value, text) in list(self._kept.items()):
            self._spilled[tool_call_id] = _written(file, value, text)
            del self._kept[tool_call_id]

    def __getitem__(self, tool_call_id: str) -> Any:
        if tool_call_id in self._kept:
            return self._kept[tool_call_id][0]
        return self._spilled[tool_call_id]()

    def __iter__(self) -> Iterator[str]:
        yield from self._spilled
        yield from self._kept

    def __len__(self) -> int:
        return len(self._spilled) + len(self._kept)


def _written(file: SpillFile, value: Any, text: str) -> Callable[[], Any]:
    try:
        return file.append(value)
    except OSError:
        raise
    except Exception:  # noqa: BLE001  `__reduce__` of a user's class may raise anything
        return file.append(f"{text}\n[only the text of this {type(value).__name__} is kept: it can't be pickled]")


def size_of(value: Any, depth: int = _DEPTH) -> int:
    """About how many bytes a value takes in memory. Of long containers only the first items are looked at.

    >>> size_of(b"x" * 1000) >= 1000
    True
    """
    size = sys.getsizeof(value)  # arrays and tables count what they hold
    if depth == 0 or type(value).__module__.startswith(("numpy", "pandas", "pyarrow")):
        return size
    if isinstance(value, dict):
        inner: Any = [item for pair in islice(value.items(), _SAMPLE) for item in pair]
        count = 2 * len(value)
    elif isinstance(value, list | tuple | set | frozenset):
        inner, count = list(islice(value, _SAMPLE)), len(value)
    else:
        inner = list(getattr(value, "__dict__", {}).values())
        count = len(inner)
    sampled = sum(size_of(item, depth - 1) for item in inner)
    return size + (sampled * count // len(inner) if inner else 0)
