"""The rows of one table: dicts while they may change, then columns, then, when there are very many, a file.

A dict is easy to complete. A column becomes part of a DataFrame quickly, and takes a fraction of the memory.
"""

from __future__ import annotations

import json
import tempfile
import weakref
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from operator import itemgetter
from typing import Any

Row = dict[str, Any]
#: Rows by column: the values of each, oldest first.
Columns = dict[str, list[Any]]

#: JSON text; a value that JSON does not know becomes its `str()`. `json.dumps` would make an encoder for each value.
as_json: Callable[[Any], str] = json.JSONEncoder(ensure_ascii=False, default=str).encode


class SpillFile:
    """A temporary file without a name, in the folder of `tempfile`. However its process ends, the file is gone."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  open as long as the trace exists
        weakref.finalize(self, self._file.close)

    def write(self, columns: Columns) -> Callable[[], Columns]:
        """Append the columns, one a line. Returns a function that reads them back. Raises OSError."""
        start = self._file.seek(0, 2)
        for column in columns.items():
            self._file.write(json.dumps(column, default=str).encode() + b"\n")
        self._file.flush()
        return partial(self._read, start, self._file.tell() - start)

    def _read(self, start: int, size: int) -> Columns:
        self._file.seek(start)
        return dict(map(json.loads, self._file.read(size).splitlines()))


class Table:
    """Rows in the order in which they were added. It has no lock of its own.

    >>> table = Table()
    >>> table.rows += [{"name": "a"}, {"name": "b"}]
    >>> table.settle(1)
    >>> [row["name"] for row in table.since(0)]
    ['a', 'b']
    """

    def __init__(self) -> None:
        #: How many rows no longer change and are columns now.
        self.settled = 0
        #: The rows after those.
        self.rows: list[Row] = []
        #: Some of the settled rows, from the first on, as a DataFrame; None until somebody looks at the table.
        self.frame: Any = None
        #: The settled rows in parts, each with its number of rows: first those in the file, then those in memory.
        self._spilled: list[tuple[int, Callable[[], Columns]]] = []
        self._kept: list[tuple[int, Columns]] = []

    def __len__(self) -> int:
        return self.settled + len(self.rows)

    def settle(self, count: int) -> None:
        """Declare that the first `count` rows no longer change. Many at once cost less than one by one."""
        rows = self.rows[: count - self.settled]
        self.take(by_column(rows))
        del self.rows[: len(rows)]

    def take(self, columns: Columns) -> None:
        """Append rows that no longer change, after the settled ones."""
        if count := count_of(columns):
            self._kept.append((count, columns))
            self.settled += count

    def spill(self, file: SpillFile) -> Columns:
        """Move the settled rows from memory to the file, and return them. Raises OSError, having changed nothing."""
        columns = _joined(self._kept)
        if columns:
            self._spilled.append((sum(count for count, _ in self._kept), file.write(columns)))
        self._kept, self.frame = [], None
        return columns

    def parts(self, start: int = 0) -> Iterator[Columns]:
        """The settled rows from number `start` on, in parts of at least one row. A part may lack columns."""
        first = 0
        for count, read in self._spilled:
            if start < first + count:
                yield _after(start - first, read())
            first += count
        kept = []
        for count, columns in self._kept:
            if start < first + count:
                kept.append((count - max(0, start - first), _after(start - first, columns)))
            first += count
        if kept:
            yield _joined(kept)

    def since(self, start: int) -> Iterator[Row]:
        """The rows from number `start` on as dicts: new ones for settled rows, the rows themselves after that."""
        for columns in self.parts(start):
            for values in zip(*columns.values(), strict=True):
                yield dict(zip(columns, values, strict=True))
        yield from self.rows[max(0, start - self.settled) :]


def by_column(rows: Sequence[Row]) -> Columns:
    """Rows by column; None where a row lacks one.

    >>> by_column([{"a": 1}, {"a": 2, "b": 3}])
    {'a': [1, 2], 'b': [None, 3]}
    """
    names = dict.fromkeys(chain.from_iterable(rows))
    try:  # most often all rows have the same columns, which takes half the time
        return {name: list(map(itemgetter(name), rows)) for name in names}
    except KeyError:
        return {name: [row.get(name) for row in rows] for name in names}


def count_of(columns: Columns) -> int:
    """The number of rows."""
    return len(next(iter(columns.values()), ()))


def _joined(parts: Sequence[tuple[int, Columns]]) -> Columns:
    """Parts, each with its number of rows, one below the other."""
    joined: Columns = {name: [] for _, columns in parts for name in columns}
    for count, columns in parts:
        for name, column in joined.items():
            column.extend(columns.get(name) or [None] * count)
    return joined


def _after(start: int, columns: Columns) -> Columns:
    return {name: column[start:] for name, column in columns.items()} if start > 0 else columns
