"""The rows of one table: dicts while they may change, columns after that, in a file when they are very many.

A dict is easily completed. A column is what a DataFrame is quickly made of, and takes a fraction of the memory.
"""

from __future__ import annotations

import json
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
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

    >>> table = Table([{"name": "a"}, {"name": "b"}])
    >>> table.settle(1)
    >>> [row["name"] for row in table.since(0)]
    ['a', 'b']
    """

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        #: How many rows change no more: they are columns.
        self.settled = 0
        #: The rows after those.
        self.rows: list[Row] = list(rows)
        self._columns: Columns = {}
        self._spilled = 0
        self._files: list[tuple[int, Callable[[], Columns]]] = []

    def __len__(self) -> int:
        return self.settled + len(self.rows)

    def settle(self, count: int) -> None:
        """The first `count` rows change no more. Each costs less the more of them there are."""
        rows = self.rows[: count - self.settled]
        new = by_column(rows)
        for name in new.keys() - self._columns.keys():
            self._columns[name] = [None] * (self.settled - self._spilled)
        for name, column in self._columns.items():
            column.extend(new.get(name) or [None] * len(rows))
        del self.rows[: len(rows)]
        self.settled += len(rows)

    def spill(self, file: SpillFile) -> Columns:
        """Move what is settled out of memory, and return it. Raises OSError, having changed nothing."""
        columns, count = self._columns, self.settled - self._spilled
        if count:
            self._files.append((count, file.write(columns)))
        self._columns, self._spilled = {}, self.settled
        return columns

    def parts(self, start: int = 0) -> Iterator[Columns]:
        """The settled rows from this number on, by column, in parts of a row at least. No part has all columns."""
        first = 0
        for count, read in [*self._files, (self.settled - self._spilled, lambda: self._columns)]:
            if start < first + count:
                columns = read()
                yield columns if start <= first else {name: column[start - first :] for name, column in columns.items()}
            first += count

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
