"""The rows of several traces as one: `Trace.concat`, and a trace that goes on in another kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nbagent.trace.recorder import EVENT_BYTES, Recorder
from nbagent.trace.rows import Row
from nbagent.trace.schema import TABLES

#: Rows that several traces may have in different runs: the trace of a fork has the messages of its origin, too.
_SHARED_KEYS = {"messages": "message_id", "blocks": "block_id"}
#: Tables in which each trace may have rows of its own for a run; of equal ones one is shown.
_WHOLE = ("scores", "prompts")


def joined(traces: Sequence[Mapping[str, list[Row]]]) -> dict[str, list[Row]]:
    """The rows by table, in the order of the traces. Those of a run that several have are taken from the last.

    >>> joined([{"runs": [{"run_id": "a", "n": 1}]}, {"runs": [{"run_id": "a", "n": 2}]}])["runs"]
    [{'run_id': 'a', 'n': 2}]
    """
    last = {row["run_id"]: number for number, tables in enumerate(traces) for row in tables["runs"]}
    return {name: _of_table(name, [tables.get(name, []) for tables in traces], last) for name in TABLES}


def _of_table(name: str, tables: Sequence[list[Row]], last: Mapping[str, int]) -> list[Row]:
    numbered = [(number, row) for number, rows in enumerate(tables) for row in rows]
    if name in _WHOLE:
        return [row for _, row in numbered]
    rows = [row for number, row in numbered if last.get(row["run_id"], number) == number]
    if key := _SHARED_KEYS.get(name):
        first: dict[str, Row] = {}
        for row in rows:
            first.setdefault(row[key], row)
        return list(first.values())
    return rows


def add_sessions(recorder: Recorder, other: Recorder) -> None:
    """Append the rows of the sessions that only `other` has. No run may be in progress."""
    with recorder.lock:
        sessions = {session_id for (session_id,) in recorder.flush().get("SELECT DISTINCT session_id FROM runs")}
        for name in TABLES:
            rows = [row for row in other.rows(name) if row["session_id"] not in sessions]
            if key := _SHARED_KEYS.get(name):
                known = {row[key] for row in recorder.rows(name)}
                rows = [row for row in rows if row[key] not in known]
            recorder.add_rows(name, rows)


def add_runs(recorder: Recorder, tables: Mapping[str, list[Row]]) -> None:
    """Append the rows of whole runs that another process recorded. Runs may be in progress here.

    Of rows that serve many runs, such as system prompts, those are left out that are known.
    """
    with recorder.lock:
        for name, rows in tables.items():
            key = {"prompts": "hash", "environment": "session_id"}.get(name)
            recorder.add_rows(name, [row for row in rows if not key or not recorder.rows(name, f"{key} = ?", row[key])])
        recorder.bytes += sum(EVENT_BYTES + len(row["content"]) for row in tables["events"])
        recorder.end_turn()
