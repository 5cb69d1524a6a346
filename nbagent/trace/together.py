"""Rows of several traces together: `Trace.concat`, forks, agents that tools asked, other kernels and workers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nbagent.trace.recorder import EVENT_BYTES, Recorder
from nbagent.trace.rows import Row
from nbagent.trace.schema import TABLES

#: Rows that several traces may have in different runs: the trace of a fork has the messages of its origin, too.
_SHARED_KEYS = {"messages": "message_id", "blocks": "block_id"}
#: The keys of rows that serve many runs; each names the first of these, or none.
_SERVING_MANY = {"prompts": "hash", "environment": "session_id"}


def joined(members: Iterable[tuple[Recorder, set[str] | None]]) -> dict[str, list[Row]]:
    """The rows by table, recorder after recorder: of some runs each, or of all. Of equal runs, the last one's."""
    every = list(members)
    last = {row["run_id"]: number for number, (recorder, _) in enumerate(every) for row in recorder.rows("runs")}
    tables: dict[str, list[Row]] = {}
    for name in TABLES:
        rows = tables[name] = []
        known: set[str] = set()
        for number, (recorder, run_ids) in enumerate(every):
            for row in recorder.rows(name):
                run_id, key = row["run_id"], _SHARED_KEYS.get(name)
                is_asked = run_ids is None or name in _SERVING_MANY or run_id in run_ids
                is_last = name in ("scores", "prompts") or last.get(run_id, number) == number
                if is_asked and is_last and not (key and row[key] in known):
                    known.add(row[key] if key else "")
                    rows.append(row)
    return tables


def family(recorder: Recorder) -> dict[Recorder, set[str] | None]:
    """This recorder and its forks with None, for all of their runs; others with the runs that tools of these started.

    Forks of forks, and what the tools of such runs started, belong to it, too.
    """
    whole = [recorder]
    for each in whole:  # it grows
        whole += [fork for fork in each.forks if fork not in whole]
    asked: dict[Recorder, set[str]] = {}
    waiting = [pair for each in whole for pairs in each.started.values() for pair in pairs]
    for run_id, child in waiting:  # it grows
        asked.setdefault(child, set()).add(run_id)
        waiting += child.started.get(run_id, ())
    return {**asked, **dict.fromkeys(whole)}


def runs_below(recorder: Recorder, run_id: str | None) -> dict[str, Recorder]:
    """The `run_id`s of a run, or of all runs of this recorder, and of those that their tools started, and so on.

    With who recorded each. Empty if nobody in the family knows the run.
    """
    started: dict[str | None, list[str]] = {}
    owners: dict[str, Recorder] = {}
    waiting = [] if run_id is None else [run_id]
    for member in reversed(family(recorder)):
        with member.lock:
            for each, parent in member.flush().get("SELECT run_id, parent_run_id FROM runs ORDER BY n"):
                started.setdefault(parent, []).append(each)
                owners[each] = member
                if run_id is None and member is recorder:
                    waiting.append(each)
    found: dict[str, Recorder] = {}
    while waiting:
        each = waiting.pop()
        if each in owners and each not in found:
            found[each] = owners[each]
            waiting += started.get(each, ())
    return found


def rows_of(runs: Mapping[str, Recorder], names: Iterable[str]) -> dict[str, list[Row]]:
    """Copies of the rows of these runs, as `runs_below` gives them, by table, in the order of their time."""
    tables: dict[str, list[Row]] = {name: [] for name in names}
    for run_id, recorder in runs.items():
        for name in tables:
            tables[name] += recorder.rows(name, "run_id = ?", run_id)
    return {name: sorted(rows, key=lambda row: row["ts"]) for name, rows in tables.items()}


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
            key = _SERVING_MANY.get(name)
            recorder.add_rows(name, [row for row in rows if not key or not recorder.rows(name, f"{key} = ?", row[key])])
        recorder.bytes += sum(EVENT_BYTES + len(row["content"]) for row in tables["events"])
        recorder.end_turn()
