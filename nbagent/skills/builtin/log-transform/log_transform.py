"""Summarises a log: counts by level, the most frequent messages, the time range and a table of entries."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple, Self

from pydantic import BaseModel, Field, TypeAdapter, model_validator

from nbagent.skills.builtin.folders import allowed_path
from nbagent.skills.untrusted_files import read_text

MAX_BYTES = 50 * 2**20
#: Characters read from a line, and characters of a returned message.
_LINE, _MESSAGE = 2_000, 200
Level = Literal["TRACE", "DEBUG", "INFO", "NOTICE", "WARNING", "ERROR", "CRITICAL", "OTHER"]
_LEVELS: dict[str, Level] = {
    "TRACE": "TRACE", "DEBUG": "DEBUG", "INFO": "INFO", "INFORMATION": "INFO", "NOTICE": "NOTICE", "WARN": "WARNING",
    "WARNING": "WARNING", "ERR": "ERROR", "ERROR": "ERROR", "SEVERE": "ERROR", "CRITICAL": "CRITICAL",
    "CRIT": "CRITICAL", "FATAL": "CRITICAL",
}  # fmt: skip
_LEVEL = re.compile(rf"(?<![A-Za-z])(?:{'|'.join(sorted(_LEVELS, key=len, reverse=True))})(?![A-Za-z])")
_QUIET_LEVEL = re.compile(rf"[\[<|\s]({'|'.join(sorted(_LEVELS, key=len, reverse=True))})[\]>|:]", re.IGNORECASE)
_ISO = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?")
_APACHE = re.compile(r"\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}")
_TIME = TypeAdapter(datetime)
#: The parts that vary between similar messages.
_VARYING = re.compile(r"0x[0-9a-fA-F]+|\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b|\d+(?:\.\d+)*")
#: Names of fields in JSON logs.
_TIME_KEYS, _LEVEL_KEYS = ("timestamp", "time", "ts", "@timestamp", "asctime"), ("level", "levelname", "severity")
_MESSAGE_KEYS = ("message", "msg", "event")


class Input(BaseModel):
    """The log, as a file or as text, and how much to return."""

    path: str = Field(default="", description="The log file, inside the current folder", max_length=4096)
    text: str = Field(default="", description="The log's text, instead of a file", max_length=2_000_000)
    top: int = Field(default=10, description="How many of the most frequent messages to return", ge=0, le=100)
    rows: int = Field(default=20, description="How many of the last entries to return as a table", ge=0, le=500)
    level: Level | None = Field(default=None, description="Restricts messages and table to this level")

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if bool(self.path) == bool(self.text):
            raise ValueError("expected either path or text")
        return self


class Output(BaseModel):
    """The summary of a log. Numbers are replaced by # in the top messages."""

    entries: int
    counts_by_level: dict[Level, int]
    top_messages: list[dict[str, Any]] = Field(description="message, count and level of each")
    time_range: dict[str, Any] | None = Field(description="start, end and seconds; None if no entry has a time")
    table: list[dict[str, Any]] = Field(description="time, level and message of the last entries")


class _Entry(NamedTuple):
    time: datetime | None
    level: Level
    message: str


def run(request: Input) -> Output:
    """Summarise a log file or text as counts by level, top messages, time range and a table of its last entries."""
    text = request.text or _text_of(request.path)
    entries = list(_entries(text.splitlines()))
    chosen = [entry for entry in entries if request.level in (None, entry.level)]
    counts = Counter((_VARYING.sub("#", message)[:_MESSAGE], level) for _, level, message in chosen)
    span = None
    if times := [entry.time for entry in entries if entry.time]:
        start, end = min(times), max(times)
        span = {"start": start.isoformat(), "end": end.isoformat(), "seconds": (end - start).total_seconds()}
    return Output(
        entries=len(entries),
        counts_by_level=dict(Counter(entry.level for entry in entries).most_common()),
        top_messages=[
            {"message": message, "count": count, "level": level}
            for (message, level), count in counts.most_common(request.top)
        ],
        time_range=span,
        table=[
            {"time": time and time.isoformat(), "level": level, "message": message[:_MESSAGE]}
            for time, level, message in chosen[max(len(chosen) - request.rows, 0) :]
        ],
    )


def _text_of(path: str) -> str:
    try:
        return read_text(allowed_path("path", path), MAX_BYTES)
    except FileNotFoundError:
        raise FileNotFoundError(f"path: there is no file {path!r}.") from None
    except ValueError as refused:
        raise ValueError(f"path: {path!r} can't be read: {refused}.") from None


def _entries(lines: Iterable[str]) -> Iterator[_Entry]:
    """The entries. A line without a time or level, such as part of a traceback, belongs to the entry above."""
    started = False
    for line in lines:
        entry = _entry(line[:_LINE]) if line.strip() else None
        if entry is None or (started and entry.time is None and entry.level == "OTHER"):
            continue
        started = started or entry.time is not None or entry.level != "OTHER"
        yield entry


def _entry(line: str) -> _Entry:
    if line.startswith("{"):
        with suppress(ValueError, RecursionError):
            return _entry_of_json(json.loads(line))
    time = _ISO.search(line) or _APACHE.search(line)
    rest = line[time.end() :] if time else line
    level = _LEVEL.search(rest, 0, 200) or _QUIET_LEVEL.search(rest, 0, 200)
    name = (level[level.lastindex or 0]).upper() if level else ""
    message = (rest[level.end() :] if level else rest).strip(" \t-:|]>[,") or line.strip()
    return _Entry(_moment(time[0]) if time else None, _LEVELS.get(name, "OTHER"), message)


def _entry_of_json(fields: dict[str, Any]) -> _Entry:
    time, level, message = (
        next((str(fields[key]) for key in keys if fields.get(key) is not None), "")
        for keys in (_TIME_KEYS, _LEVEL_KEYS, _MESSAGE_KEYS)
    )
    return _Entry(_moment(time), _LEVELS.get(level.upper(), "OTHER"), message or json.dumps(fields, ensure_ascii=False))


def _moment(text: str) -> datetime | None:
    """Parse a time, as UTC unless it has an offset. Returns None for an invalid one, such as 2024-13-01."""
    try:
        if "/" in text:
            return datetime.strptime(text, "%d/%b/%Y:%H:%M:%S %z")
        moment = _TIME.validate_python(text.replace(",", "."))
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
