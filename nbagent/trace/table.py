"""The rows of one table: dicts while they may change, then columns, then, when there are very many, a file.

A dict is easy to complete. A column becomes part of a DataFrame quickly, and takes a fraction of the memory.
"""

from __future__ import annotations

import json
import pickle
import tempfile
import threading
import weakref
from array import array
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain
from math import isfinite
from operator import itemgetter
from typing import Any

Row = dict[str, Any]
#: Rows by column: the values of each, oldest first.
Columns = dict[str, list[Any]]
#: Reads the columns of these names, or all of them, as far as there are any.
ReadColumns = Callable[[Collection[str] | None], Columns]
#: The most rows of a part in a file: to find the rows of one run, the parts that hold some of them are read.
PART = 4096


def as_json(value: Any) -> str:
    """JSON text; a value that JSON does not know becomes its `str()`, and a number that it lacks its name in a string.

    >>> as_json({"x": float("inf")})
    '{"x":"Infinity"}'
    """
    # loaded with the first row, so that `%load_ext` stays fast; it takes a third of the time of `json`
    import pydantic_core

    try:
        return pydantic_core.to_json(value, fallback=str, inf_nan_mode="strings", bytes_mode="base64").decode()
    except ValueError:  # a lone surrogate
        return json.dumps(_finite(value), ensure_ascii=False, default=str)


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not isfinite(value):
        return json.dumps(float(value))
    if isinstance(value, Mapping):
        return {_finite(key): _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value


class SpillFile:
    """A temporary file without a name, in the folder of `tempfile`. However its process ends, the file is gone."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  open as long as the trace exists
        #: Several traces may read it: see `Trace.concat`.
        self._lock = threading.Lock()
        weakref.finalize(self, self._file.close)

    def append(self, value: Any) -> Callable[[], Any]:
        """Pickle a value into the file. Returns a function that reads it back.

        Raises OSError, and whatever the value's class raises if it can't be pickled.
        """
        with self._lock:
            start = self._file.seek(0, 2)
            try:
                pickle.dump(value, self._file, pickle.HIGHEST_PROTOCOL)
                self._file.flush()
            except BaseException:
                self._file.truncate(start)
                raise
            return partial(self._read, start)

    def write(self, columns: Columns) -> ReadColumns:
        """Append the columns. Returns a function that reads them back. Raises OSError."""
        kept = {name: self.append(column) for name, column in columns.items()}

        def read_columns(names: Collection[str] | None) -> Columns:
            return {name: kept[name]() for name in (kept if names is None else kept.keys() & names)}

        return read_columns

    def _read(self, start: int) -> Any:
        with self._lock:
            self._file.seek(start)
            return pickle.load(self._file)  # noqa: S301  a nameless file that no other process can open


@dataclass(frozen=True, slots=True)
class _SettledPart:
    """Settled rows in a file, and the hashes of their keys in order: eight bytes for each run with rows there."""

    count: int
    keys: array[int]
    read: ReadColumns

    def may_hold(self, key: str) -> bool:
        """False if no row has this key."""
        place = bisect_left(self.keys, hash(key))
        return place < len(self.keys) and self.keys[place] == hash(key)


class Table:
    """Rows in the order in which they were added. It has no lock of its own.

    >>> table = Table()
    >>> table.rows += [{"name": "a"}, {"name": "b"}]
    >>> table.settle(1)
    >>> [row["name"] for row in table.since(0)]
    ['a', 'b']
    """

    def __init__(self, made: Mapping[str, Callable[[Any], Any]] | None = None, key: str = "run_id") -> None:
        #: The column by whose values `of` finds rows.
        self.key = key
        #: By column, what makes a text or number of a value that was recorded as it came. It is called when somebody
        #: reads the table, so that recording does not wait for it.
        self._made = made or {}
        #: How many rows no longer change and are columns now.
        self.settled = 0
        #: The rows after those.
        self.rows: list[Row] = []
        #: Some of the settled rows, from the first on, as a DataFrame; None until somebody looks at the table, and
        #: when there are too many of them.
        self.frame: Any = None
        #: The settled rows in parts, each with its number of rows: first those in the file, then those in memory.
        self._spilled: list[_SettledPart] = []
        self._kept: list[tuple[int, Columns]] = []
        #: How many of the parts in memory hold nothing as it came any more.
        self._n_made = 0

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

    @property
    def is_spilled(self) -> bool:
        """Whether some of the rows are in a file."""
        return bool(self._spilled)

    def spill(self, file: SpillFile) -> None:
        """Move the settled rows from memory to the file. Raises OSError, having changed nothing."""
        self._make_kept()
        columns = _joined(self._kept)
        starts = range(0, count_of(columns), PART)
        parts = [{name: values[start : start + PART] for name, values in columns.items()} for start in starts]
        self._spilled += [_SettledPart(count_of(part), _hashes(part[self.key]), file.write(part)) for part in parts]
        self._kept, self._n_made, self.frame = [], 0, None

    def parts(self, start: int = 0, names: Collection[str] | None = None) -> Iterator[Columns]:
        """The settled rows from number `start` on, in parts of at least one row: the columns of these names, or all.

        A part may lack columns.
        """
        first = 0
        for part in self._spilled:
            if start < first + part.count:
                yield _after(start - first, part.read(names))
            first += part.count
        self._make_kept()
        kept = []
        for count, columns in self._kept:
            if start < first + count:
                kept.append((count - max(0, start - first), _after(start - first, columns)))
            first += count
        if kept:
            yield _joined(kept, names)

    def since(self, start: int) -> Iterator[Row]:
        """The rows from number `start` on as dicts: new ones for settled rows, the rows themselves after that."""
        for columns in self.parts(start):
            for values in zip(*columns.values(), strict=True):
                yield dict(zip(columns, values, strict=True))
        for row in self.rows[max(0, start - self.settled) :]:
            yield self._complete(row)

    def of(self, key: str) -> Iterator[Row]:
        """Copies of the rows with this value of the key column. Only parts of a file that may hold some are read."""
        for part in self._spilled:
            if part.may_hold(key):
                yield from _picked(part.read(None), self.key, key)
        for _, columns in self._kept:
            yield from map(self._complete, _picked(columns, self.key, key))
        for row in self.rows:
            if row[self.key] == key:
                yield dict(self._complete(row))

    def _complete(self, row: Row) -> Row:
        row.update({name: _made(row.get(name), make) for name, make in self._made.items()})
        return row

    def _make_kept(self) -> None:
        for name, make in self._made.items():
            for _, columns in self._kept[self._n_made :]:
                columns[name] = [_made(value, make) for value in columns.get(name) or ()]
        self._n_made = len(self._kept)


def _hashes(keys: Iterable[str]) -> array[int]:
    return array("q", sorted(set(map(hash, keys))))


def _picked(columns: Columns, key: str, value: str) -> Iterator[Row]:
    """The rows in which the column `key` has this value."""
    for place, each in enumerate(columns[key]):
        if each == value:
            yield {name: values[place] for name, values in columns.items()}


def _made(value: Any, make: Callable[[Any], Any]) -> Any:
    return value if value is None or isinstance(value, str | int) else make(value)


def by_column(rows: Sequence[Row]) -> Columns:
    """Rows by column; None where a row lacks one.

    >>> by_column([{"a": 1}, {"a": 2, "b": 3}])
    {'a': [1, 2], 'b': [None, 3]}
    """
    if len(set(map(len, rows))) == 1 and len(names := list(rows[0])) > 1:
        with suppress(KeyError):  # most often all rows have the same columns, which takes a fraction of the time
            return dict(zip(names, map(list, zip(*map(itemgetter(*names), rows), strict=True)), strict=True))
    names = list(dict.fromkeys(chain.from_iterable(rows)))
    return {name: [row.get(name) for row in rows] for name in names}


def count_of(columns: Columns) -> int:
    """The number of rows."""
    return len(next(iter(columns.values()), ()))


def _joined(parts: Sequence[tuple[int, Columns]], names: Collection[str] | None = None) -> Columns:
    """Parts, each with its number of rows, one below the other: the columns of these names, or all."""
    joined: Columns = {name: [] for _, columns in parts for name in columns if names is None or name in names}
    for count, columns in parts:
        for name, column in joined.items():
            column.extend(columns.get(name) or [None] * count)
    return joined


def _after(start: int, columns: Columns) -> Columns:
    return {name: column[start:] for name, column in columns.items()} if start > 0 else columns
