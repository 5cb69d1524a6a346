"""The values that tools returned, in memory or, once they are too large, pickled in a temporary file.

The file is separate from the trace's database, because SQLite would keep each pickle in memory twice. No other process
can open the file. If a value can't be pickled, the file contains the text that the model read, with a note.
"""

from __future__ import annotations

import pickle
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any
from weakref import finalize

#: How many levels of a nested value, and items per level, are measured to estimate its size.
_DEPTH, _SAMPLE = 4, 50


class Results(Mapping[str, Any]):
    """The values that tools returned, by `tool_call_id`.

    >>> results = Results()
    >>> results.add("tool_1", {"a": 1}, "the text")
    >>> results["tool_1"]
    {'a': 1}
    """

    def __init__(self) -> None:
        #: The values in memory, each with the text that the model read.
        self._kept: dict[str, tuple[Any, str]] = {}
        #: The other values: a file, and the offset in it.
        self._spilled: dict[str, tuple[_PickleFile, int]] = {}
        self._file: _PickleFile | None = None
        #: The approximate bytes of the values in memory.
        self.bytes = 0

    def add(self, tool_call_id: str, value: Any, text: str) -> None:
        """Add a value and the text that the model read."""
        self._kept[tool_call_id] = value, text
        self.bytes += size_of(value)

    def take(self, other: Results) -> None:
        """Add another trace's values. Values in that trace's file stay there."""
        self._kept.update(other._kept)
        self._spilled.update(other._spilled)
        self.bytes += other.bytes

    def spill(self) -> None:
        """Move the values to the file. If this raises OSError, the unwritten values stay in memory."""
        file = self._file = self._file or _PickleFile()
        for tool_call_id, (value, text) in list(self._kept.items()):
            self._spilled[tool_call_id] = file, file.append(value, text)
            del self._kept[tool_call_id]
        self.bytes = 0

    def __getitem__(self, tool_call_id: str) -> Any:
        if tool_call_id in self._kept:
            return self._kept[tool_call_id][0]
        file, start = self._spilled[tool_call_id]
        return file.read(start)

    def __iter__(self) -> Iterator[str]:
        yield from self._spilled
        yield from self._kept

    def __len__(self) -> int:
        return len(self._spilled) + len(self._kept)


class _PickleFile:
    """An unnamed temporary file, which always disappears with its process. Several traces may read it."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  open as long as a trace reads it
        self._lock = threading.Lock()
        finalize(self, self._file.close)

    def append(self, value: Any, text: str) -> int:
        """Write a value, and return its offset. Raises OSError."""
        with self._lock:
            start = self._file.seek(0, 2)
            try:
                self._dump(value)
            except OSError:
                self._file.truncate(start)
                raise
            except Exception:  # noqa: BLE001  `__reduce__` of a user's class may raise anything
                self._file.seek(start)
                self._file.truncate()
                self._dump(f"{text}\n[only the text of this {type(value).__name__} is kept: it can't be pickled]")
            return start

    def read(self, start: int) -> Any:
        """Return the value at an offset."""
        with self._lock:
            self._file.seek(start)
            return pickle.load(self._file)  # noqa: S301  no other process can open the file

    def _dump(self, value: Any) -> None:
        pickle.dump(value, self._file, pickle.HIGHEST_PROTOCOL)
        self._file.flush()


def size_of(value: Any, depth: int = _DEPTH) -> int:
    """Estimate how many bytes of memory a value uses. The size of a long container is extrapolated from its first
    items.

    >>> size_of(b"x" * 1000) >= 1000
    True
    """
    size = sys.getsizeof(value)  # includes the data of arrays and tables
    if isinstance(value, str) or depth == 0 or type(value).__module__.startswith(("numpy", "pandas", "pyarrow")):
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
