"""Traces in files: SQLite, Parquet and JSON lines, with the same columns.

Times are Unix seconds in SQLite and JSON lines, and `timestamp[us, UTC]` in Parquet. When a file is loaded, unknown
columns are ignored, and missing ones become NA.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nbagent.checks import invalid
from nbagent.core.atomic_files import atomic_write, atomic_write_folder
from nbagent.errors import ConfigurationError, NbagentError, missing_extra
from nbagent.trace.recorder import Recorder
from nbagent.trace.rows import Row
from nbagent.trace.schema import FORMAT, KINDS, TABLES, TIME
from nbagent.trace.store import TraceStore

_SUFFIXES = (".sqlite", ".parquet", ".jsonl")


def save(store: TraceStore, path: Path) -> None:
    """Write the tables to a file. Raises ConfigurationError if the suffix is unknown or the file can't be written."""
    _check_suffix(path)
    try:
        if path.suffix == ".parquet":
            _save_parquet(store, path)
            return
        with atomic_write(path) as temporary:
            if path.suffix == ".sqlite":
                store.get("VACUUM INTO ?", str(temporary))
            else:
                with temporary.open("w", encoding="utf-8") as file:
                    file.writelines(
                        json.dumps({"table": table, "row": row}, ensure_ascii=False) + "\n"
                        for table in TABLES
                        for row in store.rows(table)
                    )
    except (OSError, sqlite3.Error) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigurationError(f"the trace can't be saved to {str(path)!r}: {reason}.") from None


def load(recorder: Recorder, path: Path) -> None:
    """Append the rows of a file. Raises ConfigurationError if the file is not a saved trace or has another version."""
    _check_suffix(path)
    try:
        if path.suffix == ".sqlite":
            FORMAT.open_readonly(path).close()  # raises
            recorder.load(path)
        else:
            for table, rows in _parquet_rows(path) if path.suffix == ".parquet" else _json_rows(path):
                recorder.add_rows(table, rows)
                recorder.flush()
        recorder.store.check_kinds()
    except ConfigurationError:
        raise
    except (NbagentError, OSError, sqlite3.Error, ValueError, LookupError, TypeError, AttributeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigurationError(
            f"can't load a trace from {str(path)!r}: {reason}. Use a file that trace.save(path) wrote."
        ) from None


def _check_suffix(path: Path) -> None:
    if path.suffix not in _SUFFIXES:
        raise invalid(
            "path", path.name, "a name that ends with .sqlite, .parquet or .jsonl", "The suffix determines the format."
        )


def _json_rows(path: Path) -> Iterator[tuple[str, list[Row]]]:
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            data = json.loads(line)
            if not isinstance(data, dict) or not isinstance(data.get("row"), dict):
                raise ValueError(f'line {number} is not a row: expected {{"table": "runs", "row": {{...}}}}')
            if data["table"] in TABLES:
                yield data["table"], [_declared(data["table"], data["row"])]


def _save_parquet(store: TraceStore, path: Path) -> None:
    _check_pyarrow()
    from nbagent.trace.columns import table_frame

    with atomic_write_folder(path) as folder:
        for table in TABLES:
            table_frame(table, store).to_parquet(folder / f"{table}.parquet", index=False)


def _parquet_rows(path: Path) -> Iterator[tuple[str, list[Row]]]:
    _check_pyarrow()
    import pyarrow.parquet as pq

    for table in TABLES:
        with pq.ParquetFile(path / f"{table}.parquet") as file:
            for batch in file.iter_batches():
                rows = [_declared(table, row) for row in batch.to_pylist()]
                for name in [name for name, kind in KINDS[table].items() if kind == TIME]:
                    for row in rows:
                        row[name] = row[name] and row[name].timestamp()
                yield table, rows


def _declared(table: str, row: dict[str, Any]) -> Row:
    return {name: row.get(name) for name in KINDS[table]}


def _check_pyarrow() -> None:
    try:
        import pyarrow as pa  # noqa: F401  pandas needs it
    except ImportError:
        raise missing_extra("A Parquet file", "parquet", ", or use .sqlite or .jsonl") from None
