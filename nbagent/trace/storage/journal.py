"""A trace as a growing file of JSON lines: `Trace.stream_to`. `Trace.load` reads it like any saved trace.

The first line has the format and version. Every other line is a row: `{"table": "runs", "n": 0, "row": {...}}`. A row
that was written before it was complete is written again, under the same table, session and number; the last line
counts. Nothing in the file ever changes, so it can be read at any time, and after a crash it holds the run up to its
last turn.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO

from nbagent.core.atomic_files import atomic_create
from nbagent.core.file_lock import append, cut_torn_line, locked
from nbagent.core.messages import well_formed
from nbagent.errors import ConfigurationError
from nbagent.trace.table import Row, Table, as_json

FORMAT, VERSION = "nbagent trace", 1
_HEADER = as_json({"format": FORMAT, "version": VERSION}).encode() + b"\n"
#: The columns with times, which rows hold in Unix seconds.
TIMES = ("ts", "started", "ended")


class Journal:
    """Appends new rows of the tables to a file, as other processes may at the same time. Methods raise OSError.

    `redact` takes secrets out of each row. Raises ConfigurationError if the file is there and is not a trace.
    """

    def __init__(self, path: Path, redact: Callable[[Any], Any] = lambda row: row) -> None:
        self.path, self._redact = path, redact
        #: How many rows of each table are written and no longer change.
        self._settled: Mapping[str, int] = {}
        #: Rows that may still change, by table and place: the number and the line of each as it was written.
        self._open: dict[tuple[str, int], tuple[int, str]] = {}
        #: Rows are numbered in each session: in a trace of several sessions each number comes several times.
        self._numbers: defaultdict[tuple[str, str], count[int]] = defaultdict(count)
        if not path.exists():
            with suppress(OSError):  # where there are no hard links, `_append` writes the first line
                atomic_create(path, _HEADER)
        with path.open("a+b", buffering=0) as file, locked(file):
            file.seek(0)
            if head := file.readline():
                check_header(path, *read_header(head))
            _append(file, b"")

    def write(self, tables: Mapping[str, Table], settled: Mapping[str, int]) -> None:
        """Append new rows, and rows that changed since they were written; the first `settled` of a table never do."""
        lines, still_open = [], {}
        for name, table in tables.items():
            start = self._settled.get(name, 0)
            for place, row in enumerate(table.since(start), start):
                number, before = self._open.get((name, place), (None, ""))
                if number is None:
                    number = next(self._numbers[name, row["session_id"]])
                line = _line(name, number, self._redact(row))
                if line != before:
                    lines.append(line)
                if place >= settled[name]:
                    still_open[name, place] = number, line
        self._open, self._settled = still_open, settled
        with self.path.open("a+b", buffering=0) as file, locked(file):
            _append(file, "".join(lines).encode())


def _append(file: BinaryIO, lines: bytes) -> None:
    """Write whole lines after whole lines: another process may have been killed in the middle of one."""
    end = cut_torn_line(file)
    append(file, lines if end else _HEADER + lines, end)


def read_header(content: bytes) -> tuple[Any, Any]:
    """Format and version from the first line; None if it has none."""
    try:
        first = json.loads(content.partition(b"\n")[0])
        return first["format"], first["version"]
    except (ValueError, KeyError, TypeError):
        return None, None


def check_header(path: Path, found: Any, version: Any) -> None:
    """Raise ConfigurationError unless the format found is a trace's, of a version that this nbagent reads."""
    if found == "nbagent recording":
        raise ConfigurationError(f"{str(path)!r} is a recording, not a saved trace. Play it with nbagent.replay(path).")
    if found != FORMAT or not isinstance(version, int):
        raise ConfigurationError(f"{str(path)!r} is not a saved trace. trace.save(path) writes one.")
    if version > VERSION:
        raise ConfigurationError(
            f"{str(path)!r} has version {version} of the trace format; this nbagent reads versions up to {VERSION}. "
            "Update nbagent."
        )


def _line(table: str, number: int, row: Row) -> str:
    plain = {name: value for name, value in row.items() if value is not None}
    times = {name: _iso(plain[name]) for name in TIMES if name in plain}
    return well_formed(as_json({"table": table, "n": number, "row": plain | times})) + "\n"


def _iso(seconds: float) -> str:
    """Unix seconds as text in whole microseconds.

    >>> _iso(0.0000015)
    '1970-01-01T00:00:00.000002+00:00'
    """
    return datetime.fromtimestamp(round(seconds * 1e6) / 1e6, UTC).isoformat(timespec="microseconds")
