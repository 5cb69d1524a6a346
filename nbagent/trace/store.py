"""The rows of a trace in SQLite, in a private database or in a file."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from nbagent.core.messages import well_formed
from nbagent.trace.rows import Row, as_json
from nbagent.trace.schema import COUNT, FLAG, FORMAT, INDEXES, KINDS, NUMBERS, REAL, TABLES, TIME, column_sql

#: Rows by column, oldest first.
Columns = dict[str, Sequence[Any]]
#: How many rows are copied at a time; and how many low bits of a row's number in a file count the writer's own rows.
COPIED, _BITS = 5_000, 40
#: Milliseconds that the end of a turn waits for other programs that use the file. After that, the next turn retries.
_TURN_BUSY_MS = 5_000
#: How many rows are read at a time. More would take longer per row.
_PART = 1_000
#: The SQL condition for a valid value of a numeric kind, and its description. Times are limited to the year 9999.
_FITS = {
    COUNT: ("typeof(\"{0}\") IN ('integer', 'null')", "a whole number"),
    FLAG: ("typeof(\"{0}\") IN ('integer', 'null')", "true or false"),
    REAL: ("typeof(\"{0}\") IN ('real', 'integer', 'null')", "a number"),
    TIME: (
        '"{0}" IS NULL OR (typeof("{0}") IN (\'real\', \'integer\') AND abs("{0}") < 253402300800)',
        "Unix seconds",
    ),
}
_FLAGS = {table: [name for name, kind in KINDS[table].items() if kind == FLAG] for table in TABLES}
#: The columns of each table, the row number first.
_ALL = {table: tuple(dict.fromkeys((NUMBERS[table], *KINDS[table]))) for table in TABLES}

#: The conditions and descriptions of the numeric columns.
_EXPECTED = {
    table: {name: (_FITS[kind][0].format(name), _FITS[kind][1]) for name, kind in KINDS[table].items() if kind in _FITS}
    for table in TABLES
}


class TraceStore:
    """A database with the tables of `schema`. Not thread-safe.

    >>> store = TraceStore(FORMAT.private(None))
    >>> store.write({"runs": [{"n": 0, "run_id": "a", "prompt": "Why?", "replayed": False}]})
    >>> [(row["prompt"], row["replayed"]) for row in store.rows("runs", "run_id = ?", "a")]
    [('Why?', False)]
    """

    def __init__(self, database: sqlite3.Connection) -> None:
        self.database = database
        self._inserts: dict[tuple[str, tuple[str, ...]], tuple[str, Callable[[Row], Any]]] = {}

    def write(self, rows: Mapping[str, Sequence[Row]], trimmed: Iterable[str] = ()) -> None:
        """Write rows and mark trimmed messages, atomically. Existing rows with the same numbers are replaced.

        Raises sqlite3.Error.
        """
        with self.transaction():
            for table, table_rows in rows.items():
                for keys, group in groupby(table_rows, tuple):
                    self._insert(table, keys, list(group))
            self.database.executemany(
                "UPDATE messages SET trimmed = 1 WHERE message_id = ?", [(message_id,) for message_id in trimmed]
            )

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Make the block's writes atomic. A nested block joins the outer one."""
        if self.database.in_transaction:
            yield
            return
        self.database.execute("BEGIN IMMEDIATE")
        try:
            yield
            self.database.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.OperationalError):  # a full disk has already rolled back
                self.database.execute("ROLLBACK")
            raise

    def parts(
        self, table: str, names: Collection[str] | None = None, where: str = "TRUE", *values: Any
    ) -> Iterator[Columns]:
        """Yield the matching rows in batches. Each batch is a dict of all columns, or of those in `names`. The last
        batch is empty.
        """
        wanted = [name for name in _ALL[table] if names is None or name in names]
        listed = ", ".join(f'"{name}"' for name in wanted)
        query = f'SELECT {listed} FROM "{table}" WHERE {where} ORDER BY "{NUMBERS[table]}"'  # noqa: S608  only our own names are joined in, values are bound
        found = self.database.execute(query, values)
        while part := found.fetchmany(_PART):
            yield dict(zip(wanted, zip(*part, strict=True), strict=True))
        yield dict.fromkeys(wanted, ())

    def rows(self, table: str, where: str = "TRUE", *values: Any) -> list[Row]:
        """Return the matching rows as dicts with all columns, oldest first."""
        names, flags, rows = _ALL[table], _FLAGS[table], []
        for columns in self.parts(table, None, where, *values):
            made: Any = dict(columns)
            for name in flags:
                made[name] = [None if value is None else bool(value) for value in columns[name]]
            rows += [dict(zip(names, row, strict=True)) for row in zip(*made.values(), strict=True)]
        return rows

    def get(self, query: str, *values: Any) -> list[Any]:
        """Return the rows of a query as tuples."""
        return self.database.execute(query, values).fetchall()

    def count(self, table: str) -> int:
        """Return the number of the next row."""
        ((last,),) = self.get(f'SELECT max("{NUMBERS[table]}") FROM "{table}"')  # noqa: S608  only our own names
        return 0 if last is None else int(last) + 1

    def append_file(self, path: Path) -> None:
        """Append the rows of a file, and renumber them. Raises sqlite3.Error."""
        self.database.execute("ATTACH ? AS other", (f"{path.resolve().as_uri()}?mode=rw",))
        try:
            for table, names in _ALL.items():
                there = {row[1] for row in self.get(f'PRAGMA other.table_info("{table}")')}
                number, *others = (f'"{name}"' for name in names if name in there)
                numbered = f"row_number() OVER (ORDER BY {number}) - 1 + {self.count(table)}"
                self.database.execute(
                    f'INSERT INTO main."{table}" ({number}, {", ".join(others)}) '  # noqa: S608  only our own names are joined in
                    f'SELECT {numbered}, {", ".join(others)} FROM other."{table}" ORDER BY {number}'
                )
        finally:
            self.database.execute("DETACH other")

    def check_kinds(self) -> None:
        """Raise ValueError if a value is not of its column's kind. Other programs may have written the file."""
        for table in TABLES:
            for name, (fits, expected) in _EXPECTED[table].items():
                if found := self.get(f'SELECT "{name}" FROM "{table}" WHERE NOT ({fits}) LIMIT 1'):  # noqa: S608  our own names
                    raise ValueError(f"{name} in {table} is {found[0][0]!r}, expected {expected}")

    def add_columns(self) -> None:
        """Add the columns that a file from an older version lacks. Raises sqlite3.Error."""
        for table, names in _ALL.items():
            there = {row[1] for row in self.get(f'PRAGMA table_info("{table}")')}
            for name in [name for name in names if name not in there]:
                self.database.execute(f'ALTER TABLE "{table}" ADD COLUMN {column_sql(table, name)}')

    def _insert(self, table: str, keys: tuple[str, ...], rows: Sequence[Row]) -> None:
        """Write rows with the same keys, without unknown columns."""
        if (known := self._inserts.get((table, keys))) is None:
            names = [key for key in keys if key in _ALL[table]]
            listed, marks = ", ".join(f'"{name}"' for name in names), ", ".join("?" * len(names))
            insert = f'INSERT OR REPLACE INTO "{table}" ({listed}) VALUES ({marks})'  # noqa: S608  only our own names are joined in, values are bound
            known = self._inserts[table, keys] = insert, itemgetter(*names)
        insert, values = known
        try:
            self.database.executemany(insert, map(values, rows))
        except (UnicodeEncodeError, OverflowError, sqlite3.ProgrammingError, sqlite3.InterfaceError):
            self.database.executemany(insert, [tuple(map(_storable, values(row))) for row in rows])


def private_store(cache_bytes: int | None) -> TraceStore:
    """Return an empty store. Data beyond `cache_bytes` spills to a temporary file; None keeps everything in memory."""
    store = TraceStore(FORMAT.private(cache_bytes))
    store.database.executescript(INDEXES)
    return store


class TraceFile:
    """A SQLite file to which a growing trace is written. Other processes may write their traces to the same file.

    `redact` removes secrets from each row. Raises the errors that `FORMAT.open` raises.
    """

    def __init__(self, path: Path, redact: Callable[[Row], Row] = lambda row: row) -> None:
        self.path, self._redact = path, redact
        self._store = TraceStore(FORMAT.open(path))
        self._store.database.execute("PRAGMA synchronous = OFF")  # survives a killed process
        self._store.add_columns()
        #: Other sessions in the file.
        self._known: set[str] = set()
        #: The first row number, which differs between processes.
        self._first = 0
        self._waiting: dict[str, list[Row]] = {table: [] for table in TABLES}
        self._trimmed: list[str] = []

    @contextmanager
    def rewriting(self, session_id: str) -> Iterator[None]:
        """Replace this session's rows in the file. The block must write the whole trace; the replacement is atomic."""
        database = self._store.database
        with self._store.transaction():
            for table in TABLES:
                database.execute(f'DELETE FROM "{table}" WHERE session_id = ?', (session_id,))  # noqa: S608  our own name
            self._known = {session for (session,) in self._store.get("SELECT DISTINCT session_id FROM runs")}
            self._first = (database.execute("INSERT INTO writers DEFAULT VALUES").lastrowid or 0) << _BITS
            yield
        database.execute(f"PRAGMA busy_timeout = {_TURN_BUSY_MS}")

    def take(self, rows: Mapping[str, Iterable[Row]], trimmed: Iterable[str] = ()) -> None:
        """Queue copies of new or changed rows."""
        for table, table_rows in rows.items():
            number = NUMBERS[table]
            self._waiting[table] += [
                {**row, number: row[number] + self._first} for row in table_rows if row["session_id"] not in self._known
            ]
        self._trimmed += trimmed

    def write(self) -> None:
        """Write the queued rows. Raises sqlite3.Error, OSError."""
        os.stat(self.path)  # raises if it was deleted; SQLite would not notice
        rows = {table: list(map(self._redact, rows)) for table, rows in self._waiting.items()}
        self._store.write(rows, self._trimmed)
        self._waiting, self._trimmed = {table: [] for table in TABLES}, []

    def close(self) -> None:
        """Close the file."""
        self._store.database.close()


def _storable(value: Any) -> Any:
    """Return a value that SQLite can store. Lone surrogates, from file names or models, are replaced."""
    if isinstance(value, str):
        return well_formed(value)
    is_plain = value is None or isinstance(value, float) or (isinstance(value, int) and abs(value) < 2**63)
    return value if is_plain else well_formed(as_json(value))
