"""Traces in files: SQLite, Parquet and JSON lines, with the same columns and a version of the format in each.

Times are `timestamp[us, UTC]` in Parquet and ISO 8601 text in the others, flags 0 and 1 in SQLite, NA is null. A file
of a newer version is not read. The version rises when a column changes its meaning; unknown columns are ignored, and
missing ones are NA.
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
from typing import Any

from nbagent.checks import invalid
from nbagent.core.atomic_files import atomic_write, atomic_write_folder
from nbagent.errors import ConfigurationError, missing_extra
from nbagent.trace.columns import COLUMNS, COUNT, FLAG, REAL, TIME, TraceFrame
from nbagent.trace.recorder import TABLES
from nbagent.trace.storage.journal import FORMAT, VERSION, check_header, read_header
from nbagent.trace.table import Columns, Row, by_column, count_of

#: "nbag", in the head of a SQLite file: https://www.sqlite.org/pragma.html#pragma_application_id
APPLICATION_ID = int.from_bytes(b"nbag", "big")

#: Parts of tables, each with the name of its table and some of its rows, by column.
Parts = Iterator[tuple[str, Columns]]

#: Rows of a part.
_BATCH = 1024


def save(frames: Mapping[str, TraceFrame], path: Path) -> None:
    """Write the tables. Raises ConfigurationError for an unknown suffix, or if the file can't be written."""
    write, _ = _format_of(path)
    try:
        write(frames, path)
    except (OSError, sqlite3.Error) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigurationError(f"the trace can't be saved to {str(path)!r}: {reason}.") from None


def load(path: Path) -> Parts:
    """The tables in a file, in parts. Raises ConfigurationError if it is not a saved trace, or of a newer version.

    Of JSON lines, all rows are in memory at once, since a later line may replace an earlier one.
    """
    _, read = _format_of(path)
    try:
        if not path.exists():
            raise FileNotFoundError("it does not exist")
        yield from read(path)
    except ConfigurationError:
        raise
    except (OSError, sqlite3.Error, ValueError, LookupError, TypeError, AttributeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigurationError(
            f"no trace can be read from {str(path)!r}: {reason}. trace.save(path) writes one."
        ) from None


def _format_of(path: Path) -> tuple[Callable[[Mapping[str, TraceFrame], Path], None], Callable[[Path], Parts]]:
    if path.suffix not in _FORMATS:
        raise invalid("path", path.name, f"a name that ends with {', '.join(_FORMATS)}", "The suffix names the format.")
    return _FORMATS[path.suffix]


# -- values -----------------------------------------------------------------------------------------------------------


def _plain_rows(frame: TraceFrame) -> Iterator[tuple[Any, ...]]:
    """The rows as tuples of text, numbers, flags and None."""
    columns = []
    for name in frame.columns:
        column = frame[name]
        values = column.astype(object).where(column.notna(), None).tolist()
        if str(column.dtype) == TIME:
            values = [None if value is None else value.isoformat(timespec="microseconds") for value in values]
        columns.append(values)
    return zip(*columns, strict=True)


def _recorded(table: str, stored: Columns) -> Columns:
    """Stored columns in the recorder's form: the declared ones, with times in seconds and flags as bools."""
    missing = [None] * count_of(stored)
    return {name: _converted(stored.get(name, missing), dtype) for name, dtype in COLUMNS[table].items()}


def _converted(values: list[Any], dtype: Any) -> list[Any]:
    words = getattr(dtype, "categories", None)
    if words is not None:  # of a later version, there may be others
        return [value if value in words else None for value in values]
    conversions: dict[Any, Callable[[Any], Any]] = {TIME: _seconds, FLAG: bool}
    convert = conversions.get(dtype)
    return values if convert is None else [None if value is None else convert(value) for value in values]


def _seconds(when: str | int) -> float:
    """Unix seconds of a stored time: text, or a number of microseconds."""
    return datetime.fromisoformat(when).timestamp() if isinstance(when, str) else when / 1e6


# -- SQLite -----------------------------------------------------------------------------------------------------------


def _save_sqlite(frames: Mapping[str, TraceFrame], path: Path) -> None:
    kinds = {COUNT: "INTEGER", FLAG: "INTEGER", REAL: "REAL"}
    with atomic_write(path) as temporary, closing(sqlite3.connect(temporary)) as database, database:
        database.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        database.execute(f"PRAGMA user_version = {VERSION}")
        for table, frame in frames.items():
            columns = ", ".join(f'"{name}" {kinds.get(str(dtype), "TEXT")}' for name, dtype in frame.dtypes.items())
            database.execute(f'CREATE TABLE "{table}" ({columns})')
            marks = ", ".join("?" * len(frame.columns))
            database.executemany(f'INSERT INTO "{table}" VALUES ({marks})', _plain_rows(frame))  # noqa: S608  only our own names are joined in, values are bound


def _load_sqlite(path: Path) -> Parts:
    with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
        (application,) = database.execute("PRAGMA application_id").fetchone()
        (version,) = database.execute("PRAGMA user_version").fetchone()
        check_header(path, FORMAT if application == APPLICATION_ID else None, version)
        for table in TABLES:
            query = f'SELECT * FROM "{table}"'  # noqa: S608  only our own name is joined in
            with closing(database.execute(query)) as rows:  # else an error would keep the file locked
                names = [column[0] for column in rows.description]
                while batch := rows.fetchmany(_BATCH):
                    columns = dict(zip(names, map(list, zip(*batch, strict=True)), strict=True))
                    yield table, _recorded(table, columns)


# -- Parquet ----------------------------------------------------------------------------------------------------------


def _save_parquet(frames: Mapping[str, TraceFrame], path: Path) -> None:
    arrow, parquet = _pyarrow()
    with atomic_write_folder(path) as folder:
        for table, frame in frames.items():
            data = arrow.Table.from_pandas(frame, preserve_index=False)
            header = {"format": FORMAT, "version": str(VERSION)}
            data = data.replace_schema_metadata({**(data.schema.metadata or {}), **header})
            parquet.write_table(data, folder / f"{table}.parquet")


def _load_parquet(path: Path) -> Parts:
    arrow, parquet = _pyarrow()
    if not path.is_dir():
        raise ConfigurationError(
            f"{str(path)!r} is a single file; a trace in Parquet is a folder with one file for each table. Load the "
            "folder that trace.save(path) wrote, or read one table with pandas.read_parquet."
        )
    for table in TABLES:
        with parquet.ParquetFile(path / f"{table}.parquet") as file:
            header = file.schema_arrow.metadata or {}
            version = header.get(b"version", b"").decode()
            check_header(path, header.get(b"format", b"").decode(), int(version) if version.isdigit() else None)
            for batch in file.iter_batches():
                columns: Columns = {}
                for name, column in zip(batch.schema.names, batch.columns, strict=True):
                    is_time = arrow.types.is_timestamp(column.type)
                    columns[name] = (column.cast("int64") if is_time else column).to_pylist()
                yield table, _recorded(table, columns)


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise missing_extra("A Parquet file", "parquet", ", or save to .sqlite or .jsonl") from None
    return pa, pq


# -- JSON lines -------------------------------------------------------------------------------------------------------


def _save_jsonl(frames: Mapping[str, TraceFrame], path: Path) -> None:
    """Rows are numbered in their session, so that a journal can go on in this file."""
    numbers: defaultdict[tuple[str, str | None], count[int]] = defaultdict(count)
    with atomic_write(path) as temporary, temporary.open("w", encoding="utf-8") as file:
        file.write(json.dumps({"format": FORMAT, "version": VERSION}) + "\n")
        for table, frame in frames.items():
            names = list(frame.columns)
            for values in _plain_rows(frame):
                row = {name: value for name, value in zip(names, values, strict=True) if value is not None}
                number = next(numbers[table, row.get("session_id")])
                file.write(json.dumps({"table": table, "n": number, "row": row}, ensure_ascii=False) + "\n")


def _load_jsonl(path: Path) -> Parts:
    """Reads complete lines; the last may be torn if the file was copied while it grew.

    For each number of a table and session, the last line counts (see `journal`).
    """
    rows: dict[str, dict[Any, Row]] = {table: {} for table in TABLES}
    with path.open("rb") as file:
        check_header(path, *read_header(file.readline()))
        for number, line in enumerate(file, 2):
            try:
                data = json.loads(line)
            except ValueError:
                if line.endswith(b"\n"):
                    raise ConfigurationError(f"{str(path)!r} is not a saved trace: line {number} is not JSON") from None
                break
            if data["table"] in rows:
                row = data["row"]
                key = (row.get("session_id"), data["n"]) if "n" in data else (None, None, number)
                rows[data["table"]][key] = row  # a row that is written again keeps its place
    for table in TABLES:
        yield table, _recorded(table, by_column(list(rows.pop(table).values())))


_FORMATS = {
    ".sqlite": (_save_sqlite, _load_sqlite),
    ".parquet": (_save_parquet, _load_parquet),
    ".jsonl": (_save_jsonl, _load_jsonl),
}
