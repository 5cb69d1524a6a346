"""A trace in a file of JSON lines that grows with it: `Trace.stream_to`.

Each line is `{"table": "calls", "n": 3, "row": {...}}`. A row that was written before it was complete is written again
under the same table, session and number, and its last line counts. So nothing in the file is ever changed: it can be
read at any time, and what crashed is there up to its last turn.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

from nbagent.core.atomic_files import atomic_write
from nbagent.core.messages import well_formed
from nbagent.errors import ConfigurationError
from nbagent.trace.rows import Row, as_json
from nbagent.trace.table import Table

FORMAT, VERSION = "nbagent trace", 1
#: The columns that are times, which rows hold in Unix seconds.
TIMES = ("ts", "started", "ended")


class Journal:
    """Appends to a file what is new in the tables. Raises ConfigurationError where it can't, or is no such file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        #: How many rows of each table are written and change no more.
        self._settled: Mapping[str, int] = {}
        #: What may still change, by table and place: its number, and the line as it was written.
        self._open: dict[tuple[str, int], tuple[int, str]] = {}
        #: Rows are numbered in each session, so that a trace of several has the same numbers again.
        self._numbers: defaultdict[tuple[str, str], count[int]] = defaultdict(count)
        try:
            if not path.exists() or not path.stat().st_size:
                _begin(path)
            whole = _whole(path.read_bytes())
            check(path, *head(whole))
            with path.open("ab") as file:
                file.truncate(len(whole))
        except OSError as error:
            raise ConfigurationError(f"{str(path)!r} can't be written: {error.strerror or error}") from None

    def write(self, tables: Mapping[str, Table], settled: Mapping[str, int]) -> None:
        """Append new rows, and those that changed since they were written; the first `settled` of a table never do."""
        lines, still_open = [], {}
        for name, table in tables.items():
            start = self._settled.get(name, 0)
            for place, row in enumerate(table.since(start), start):
                number, before = self._open.get((name, place), (None, ""))
                if number is None:
                    number = next(self._numbers[name, row["session_id"]])
                line = _line(name, number, row)
                if line != before:
                    lines.append(line)
                if place >= settled[name]:
                    still_open[name, place] = number, line
        self._open, self._settled = still_open, settled
        with self.path.open("ab") as file:
            file.write("".join(lines).encode())


def check(path: Path, form: Any, version: Any) -> None:
    """Raise ConfigurationError for what is no trace, or of a newer schema."""
    if form == "nbagent recording":
        raise ConfigurationError(f"{str(path)!r} is no saved trace but a recording: nbagent.replay(path) plays it")
    if form != FORMAT or not isinstance(version, int):
        raise ConfigurationError(f"{str(path)!r} is no saved trace: trace.save(path) writes one")
    if version > VERSION:
        raise ConfigurationError(
            f"{str(path)!r} has version {version} of the trace's schema, and this nbagent reads up to version "
            f"{VERSION}: update nbagent"
        )


def _begin(path: Path) -> None:
    """A new file has its first line from the first moment: one without it, however it came about, is no trace."""
    first = as_json({"format": FORMAT, "version": VERSION}).encode() + b"\n"
    if path.exists():  # an empty file, which somebody may have open
        path.write_bytes(first)
    else:
        with atomic_write(path) as temporary:
            temporary.write_bytes(first)


def _whole(content: bytes) -> bytes:
    """All whole lines."""
    return content[: content.rfind(b"\n") + 1]


def head(content: bytes) -> tuple[Any, Any]:
    """Format and version by the first line; None where it says none."""
    try:
        first = json.loads(content.partition(b"\n")[0])
        return first["format"], first["version"]
    except (ValueError, KeyError, TypeError):
        return None, None


def _line(table: str, number: int, row: Row) -> str:
    plain = {name: value for name, value in row.items() if value is not None}
    times = {name: iso(plain[name]) for name in TIMES if name in plain}
    return well_formed(as_json({"table": table, "n": number, "row": plain | times})) + "\n"


def iso(seconds: float) -> str:
    """Unix seconds as text in whole microseconds.

    >>> iso(0.0000015)
    '1970-01-01T00:00:00.000002+00:00'
    """
    return datetime.fromtimestamp(round(seconds * 1e6) / 1e6, UTC).isoformat(timespec="microseconds")
