"""The rows of one table: dicts while they may change, columns after that, in a file when they are very many.

A dict is easily completed. A column is what a DataFrame is quickly made of, and takes a fraction of the memory.
"""

from __future__ import annotations

import json
import tempfile
import weakref
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from operator import itemgetter

from nbagent.trace.rows import Columns, Row


class SpillFile:
    """A temporary file without a name, in the folder of `tempfile`: it is gone when its process is, however it ends."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  open as long as there is the trace
        weakref.finalize(self, self._file.close)

    def write(self, columns: Columns) -> Callable[[], Columns]:
        """Append the columns, a line each; what is returned reads them back. Raises OSError."""
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
        #: How many rows change no more: they are columns.
        self.settled = 0
        #: The rows after those.
        self.rows: list[Row] = []
        #: The settled rows in parts, each with its length: those in the file, then those in memory.
        self._spilled: list[tuple[int, Callable[[], Columns]]] = []
        self._kept: list[tuple[int, Columns]] = []

    def __len__(self) -> int:
        return self.settled + len(self.rows)

    def settle(self, count: int) -> None:
        """The first `count` rows change no more. Each costs less the more of them there are."""
        rows = self.rows[: count - self.settled]
        self.take(by_column(rows))
        del self.rows[: len(rows)]

    def take(self, columns: Columns) -> None:
        """Settled rows, by column, behind those that are settled."""
        if count := count_of(columns):
            self._kept.append((count, columns))
            self.settled += count

    def spill(self, file: SpillFile) -> Columns:
        """Move what is settled out of memory, and return it. Raises OSError, having changed nothing."""
        columns = _joined(self._kept)
        if columns:
            self._spilled.append((sum(count for count, _ in self._kept), file.write(columns)))
        self._kept = []
        return columns

    def parts(self, start: int = 0) -> Iterator[Columns]:
        """The settled rows from this number on, by column, in parts of a row at least. No part has all columns."""
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
        """The rows from this number on as dicts: settled ones anew."""
        for columns in self.parts(start):
            for values in zip(*columns.values(), strict=True):
                yield dict(zip(columns, values, strict=True))
        yield from self.rows[max(0, start - self.settled) :]


def by_column(rows: Sequence[Row]) -> Columns:
    """Rows by column; what a row has not is None.

    >>> by_column([{"a": 1}, {"a": 2, "b": 3}])
    {'a': [1, 2], 'b': [None, 3]}
    """
    names = dict.fromkeys(chain.from_iterable(rows))
    try:  # most often all rows have the same, which takes half the time
        return {name: list(map(itemgetter(name), rows)) for name in names}
    except KeyError:
        return {name: [row.get(name) for row in rows] for name in names}


def count_of(columns: Columns) -> int:
    """How many rows they are."""
    return len(next(iter(columns.values()), ()))


def _joined(parts: Sequence[tuple[int, Columns]]) -> Columns:
    """Parts, each with its length, one below the other."""
    joined: Columns = {name: [] for _, columns in parts for name in columns}
    for count, columns in parts:
        for name, column in joined.items():
            column.extend(columns.get(name) or [None] * count)
    return joined


def _after(start: int, columns: Columns) -> Columns:
    return {name: column[start:] for name, column in columns.items()} if start > 0 else columns
