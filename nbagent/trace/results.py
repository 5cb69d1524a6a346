"""What tools returned: in memory, then, when there is too much, pickled in the trace's temporary database.

Nobody else reads or writes that, and `Trace.save` leaves it out. Of a value that can't be pickled, the text stays that
the model read, with a note.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from nbagent.trace.store import TraceStore

#: How deep and how wide a nested value is looked at to estimate its size.
_DEPTH, _SAMPLE = 4, 50


class Results(Mapping[str, Any]):
    """Values by `tool_call_id`.

    >>> results = Results()
    >>> results.add("tool_1", {"a": 1}, "the text")
    >>> results["tool_1"]
    {'a': 1}
    """

    def __init__(self) -> None:
        #: Each value with the text that the model read.
        self._kept: dict[str, tuple[Any, str]] = {}
        #: The stores that have the others.
        self._spilled: dict[str, TraceStore] = {}
        #: About how many bytes those in memory take.
        self.bytes = 0

    def add(self, tool_call_id: str, value: Any, text: str) -> None:
        """Keep a value."""
        self._kept[tool_call_id] = value, text
        self.bytes += size_of(value)

    def take(self, other: Results) -> None:
        """Keep the values of another trace too; those in its database stay there."""
        self._kept.update(other._kept)
        self._spilled.update(other._spilled)
        self.bytes += other.bytes

    def spill(self, store: TraceStore) -> None:
        """Move the values to the store. Raises sqlite3.Error; the values that are not written yet stay in memory."""
        store.database.execute("CREATE TEMP TABLE IF NOT EXISTS results (id TEXT PRIMARY KEY, value BLOB)")
        for tool_call_id, (value, text) in list(self._kept.items()):
            store.database.execute("INSERT INTO temp.results VALUES (?, ?)", (tool_call_id, _pickled(value, text)))
            self._spilled[tool_call_id] = store
            del self._kept[tool_call_id]
        self.bytes = 0

    def __getitem__(self, tool_call_id: str) -> Any:
        if tool_call_id in self._kept:
            return self._kept[tool_call_id][0]
        query = "SELECT value FROM temp.results WHERE id = ?"
        ((value,),) = self._spilled[tool_call_id].get(query, tool_call_id)
        return pickle.loads(value)  # noqa: S301  a database that no other process can open

    def __iter__(self) -> Iterator[str]:
        yield from self._spilled
        yield from self._kept

    def __len__(self) -> int:
        return len(self._spilled) + len(self._kept)


def _pickled(value: Any, text: str) -> bytes:
    try:
        return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    except Exception:  # noqa: BLE001  `__reduce__` of a user's class may raise anything
        note = f"{text}\n[only the text of this {type(value).__name__} is kept: it can't be pickled]"
        return pickle.dumps(note, pickle.HIGHEST_PROTOCOL)


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
