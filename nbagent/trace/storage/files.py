"""Traces in files: SQLite, Parquet and JSON lines, all with the same columns, and with the version of their schema.

Times are `timestamp[us, UTC]` in Parquet and ISO 8601 text in the others, flags 0 and 1 in SQLite, NA is null. A file
of a newer schema is not read. The version rises when a column changes its meaning; a column that is not known is left
alone, one that is not there is NA.
"""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbagent.core.atomic_files import atomic_write, atomic_write_folder
from nbagent.errors import ConfigurationError, MissingDependencyError
from nbagent.trace.rows import Columns, Row
from nbagent.trace.storage import journal
from nbagent.trace.storage.journal import FORMAT, check
from nbagent.trace.table import by_column, count_of

if TYPE_CHECKING:
    from nbagent.trace.columns import TraceFrame

#: "nbag", in the head of a SQLite file: https://www.sqlite.org/pragma.html#pragma_application_id
APPLICATION_ID = int.from_bytes(b"nbag", "big")

Tables = dict[str, Columns]


def save(frames: Mapping[str, TraceFrame], path: Path) -> None:
    """Write the tables. Raises ConfigurationError for another ending and where the file can't be written."""
    write, _ = _by_suffix(path)
    try:
        write(frames, path)
    except (OSError, sqlite3.Error) as error:
        raise ConfigurationError(f"the trace can't be saved to {str(path)!r}: {error}") from None


def load(path: Path) -> Tables:
    """The tables in a file, by column. Raises ConfigurationError for what is no such file, or of a newer version."""
    _, read = _by_suffix(path)
    if not path.exists():
        raise ConfigurationError(f"no trace can be loaded from {str(path)!r}: there is no such file")
    if path.is_file() and not path.stat().st_size:
        raise ConfigurationError(f"{str(path)!r} is empty, which no saved trace is: trace.save(path) writes one")
    try:
        return read(path)
    except (OSError, sqlite3.Error, ValueError, LookupError, TypeError, AttributeError) as error:
        if isinstance(error, ConfigurationError):
            raise
        raise ConfigurationError(f"{str(path)!r} is no saved trace: {error}") from None


def _by_suffix(path: Path) -> tuple[Callable[[Mapping[str, TraceFrame], Path], None], Callable[[Path], Tables]]:
    if path.suffix not in _FORMATS:
        raise ConfigurationError(f"{path.name!r} says no format of traces: let its name end with {', '.join(_FORMATS)}")
    return _FORMATS[path.suffix]


# -- values -----------------------------------------------------------------------------------------------------------


def _plain(frame: TraceFrame) -> Iterator[tuple[Any, ...]]:
    """The rows as tuples of text, numbers, flags and None."""
    from nbagent.trace.columns import TIME

    columns = []
    for name in frame.columns:
        column = frame[name]
        values = column.astype(object).where(column.notna(), None).tolist()
        if str(column.dtype) == TIME:
            values = [None if value is None else value.isoformat(timespec="microseconds") for value in values]
        columns.append(values)
    return zip(*columns, strict=True)


def _columns(table: str, stored: Columns) -> Columns:
    """Stored columns as the recorder keeps them: those that are known, times in seconds, flags as flags."""
    from nbagent.trace.columns import COLUMNS, FLAG, TIME

    forms: dict[Any, Callable[[Any], Any]] = {TIME: _seconds, FLAG: bool}
    unknown = [None] * count_of(stored)
    columns = {name: stored.get(name, unknown) for name in COLUMNS[table]}
    for name, values in columns.items():
        if form := forms.get(COLUMNS[table][name]):
            columns[name] = [None if value is None else form(value) for value in values]
    return columns


def _seconds(when: Any) -> float:
    """A time as a file has it, text or a number of microseconds."""
    return float(datetime.fromisoformat(when).timestamp() if isinstance(when, str) else when / 1e6)


# -- SQLite -----------------------------------------------------------------------------------------------------------


def _save_sqlite(frames: Mapping[str, TraceFrame], path: Path) -> None:
    from nbagent.trace.columns import COUNT, FLAG, REAL

    kinds = {COUNT: "INTEGER", FLAG: "INTEGER", REAL: "REAL"}
    with atomic_write(path) as temporary, closing(sqlite3.connect(temporary)) as database, database:
        database.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        database.execute(f"PRAGMA user_version = {journal.VERSION}")
        for table, frame in frames.items():
            columns = ", ".join(f'"{name}" {kinds.get(str(dtype), "TEXT")}' for name, dtype in frame.dtypes.items())
            database.execute(f'CREATE TABLE "{table}" ({columns})')
            marks = ", ".join("?" * len(frame.columns))
            database.executemany(f'INSERT INTO "{table}" VALUES ({marks})', _plain(frame))  # noqa: S608  our own names


def _load_sqlite(path: Path) -> Tables:
    from nbagent.trace.recorder import TABLES

    with closing(sqlite3.connect(f"file:{path.resolve().as_posix()}?mode=ro", uri=True)) as database:
        (application,) = database.execute("PRAGMA application_id").fetchone()
        (version,) = database.execute("PRAGMA user_version").fetchone()
        check(path, FORMAT if application == APPLICATION_ID else None, version)
        tables: Tables = {}
        for table in TABLES:
            stored = database.execute(f'SELECT * FROM "{table}" ORDER BY rowid')  # noqa: S608  our own names
            names = [name for name, *_ in stored.description]
            values = list(zip(*stored, strict=True)) or [()] * len(names)
            tables[table] = _columns(table, dict(zip(names, map(list, values), strict=True)))
        return tables


# -- Parquet ----------------------------------------------------------------------------------------------------------


def _save_parquet(frames: Mapping[str, TraceFrame], path: Path) -> None:
    arrow, parquet = _pyarrow()
    with atomic_write_folder(path) as folder:
        for table, frame in frames.items():
            data = arrow.Table.from_pandas(frame, preserve_index=False)
            about = {"format": FORMAT, "version": str(journal.VERSION)}
            data = data.replace_schema_metadata({**(data.schema.metadata or {}), **about})
            parquet.write_table(data, folder / f"{table}.parquet")


def _load_parquet(path: Path) -> Tables:
    from nbagent.trace.recorder import TABLES

    arrow, parquet = _pyarrow()
    if not path.is_dir():
        raise ConfigurationError(
            f"{str(path)!r} is one file, and a trace in Parquet is a folder with a file for each table: load the "
            "folder that trace.save(path) wrote, or read one table with pandas.read_parquet"
        )
    tables: Tables = {}
    for table in TABLES:
        data = parquet.ParquetFile(path / f"{table}.parquet").read()
        about = data.schema.metadata or {}
        version = about.get(b"version", b"").decode()
        check(path, about.get(b"format", b"").decode(), int(version) if version.isdigit() else None)
        stored = {
            name: column.cast("int64") if arrow.types.is_timestamp(column.type) else column
            for name, column in zip(data.column_names, data.columns, strict=True)
        }
        tables[table] = _columns(table, {name: column.to_pylist() for name, column in stored.items()})
    return tables


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise MissingDependencyError(
            "Parquet files need pyarrow: pip install 'nbagent[parquet]', or save to .sqlite or .jsonl"
        ) from None
    return pa, pq


# -- JSON lines -------------------------------------------------------------------------------------------------------


def _save_jsonl(frames: Mapping[str, TraceFrame], path: Path) -> None:
    """Rows are numbered in their session, as a journal does it, so that it can go on in this file."""
    numbers: defaultdict[tuple[str, str | None], count[int]] = defaultdict(count)
    with atomic_write(path) as temporary, temporary.open("w", encoding="utf-8") as file:
        file.write(json.dumps({"format": FORMAT, "version": journal.VERSION}) + "\n")
        for table, frame in frames.items():
            names = list(frame.columns)
            for values in _plain(frame):
                row = {name: value for name, value in zip(names, values, strict=True) if value is not None}
                number = next(numbers[table, row.get("session_id")])
                file.write(json.dumps({"table": table, "n": number, "row": row}, ensure_ascii=False) + "\n")


def _load_jsonl(path: Path) -> Tables:
    """The whole lines; the last one may be torn, where a file was cut while it was copied or written.

    A line with a number stands for the row of that number in its session, the last one counts (see `journal`).
    """
    from nbagent.trace.recorder import TABLES

    tables: dict[str, list[Row]] = {table: [] for table in TABLES}
    places: dict[tuple[str, str | None, int], int] = {}
    with path.open("rb") as file:
        check(path, *journal.head(file.readline()))
        for number, line in enumerate(file, 2):
            try:
                data = json.loads(line)
            except ValueError:
                if line.endswith(b"\n"):
                    raise ConfigurationError(f"{str(path)!r} is no saved trace: line {number} is no JSON") from None
                break
            if data["table"] in tables:
                rows, row = tables[data["table"]], data["row"]
                place = (
                    len(rows)
                    if "n" not in data
                    else places.setdefault((data["table"], row.get("session_id"), data["n"]), len(rows))
                )
                rows[place : place + 1] = [row]
    return {table: _columns(table, by_column(rows)) for table, rows in tables.items()}


_FORMATS = {
    ".sqlite": (_save_sqlite, _load_sqlite),
    ".parquet": (_save_parquet, _load_parquet),
    ".jsonl": (_save_jsonl, _load_jsonl),
}
