"""Combines the rows of several traces, for `Trace.concat`, forks, sub-agents, earlier kernels and worker processes."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping

from nbagent.trace.recorder import EVENT_BYTES, Recorder
from nbagent.trace.rows import Row
from nbagent.trace.schema import TABLES

#: Rows that several traces may have under different runs: the trace of a fork repeats the messages of its origin.
_SHARED_KEYS = {"messages": "message_id", "blocks": "block_id"}
#: The keys of rows that several runs share. Such a row names only the first of these runs, or none.
_OF_MANY_RUNS = {"prompts": "hash", "environment": "session_id"}
#: The condition for the rows of some runs, whose ids are given as a JSON list.
_ARE_IN = "run_id IN (SELECT value FROM json_each(?))"


def combined_rows(
    members: Iterable[tuple[Recorder, set[str] | None]], names: Iterable[str] = TABLES
) -> dict[str, list[Row]]:
    """The combined rows by table. Each recorder contributes the rows of the given runs, or all its rows if None is
    given.

    If several recorders contain the same run, the rows of the last one are used.
    """
    every = list(members)
    last = {run_id: number for number, (recorder, _) in enumerate(every) for run_id in _parents(recorder)}
    tables: dict[str, list[Row]] = {}
    for name in names:
        rows = tables[name] = []
        known: set[str] = set()
        for number, (recorder, run_ids) in enumerate(every):
            key, ids = _SHARED_KEYS.get(name), None if name in _OF_MANY_RUNS else run_ids
            for row in recorder.rows(name) if ids is None else recorder.rows(name, _ARE_IN, json.dumps([*ids])):
                is_last = name in ("scores", "prompts") or last.get(row["run_id"], number) == number
                if is_last and not (key and row[key] in known):
                    known.add(row[key] if key else "")
                    rows.append(row)
    return tables


def related_recorders(recorder: Recorder) -> dict[Recorder, set[str] | None]:
    """The recorders to read, each with the ids of the runs to read, or None for all its runs.

    All runs of this recorder and its forks, including forks of forks, are read. So are the runs that their tools
    started, directly or through other runs, even if another recorder recorded them.
    """
    whole = [recorder]
    for member in whole:  # the list grows as it is read
        whole += [fork for fork in member.forks if fork not in whole]
    asked: dict[Recorder, set[str]] = {}
    waiting = [
        (run_id, child or member) for member in whole for runs in member.started.values() for run_id, child in runs
    ]
    for run_id, owner in waiting:  # the list grows as it is read
        asked.setdefault(owner, set()).add(run_id)
        waiting += [(below, child or owner) for below, child in owner.started.get(run_id, ())]
    return {**asked, **dict.fromkeys(whole)}


def rows_below(recorder: Recorder, run_id: str | None, names: Iterable[str]) -> dict[str, list[Row]]:
    """Copies of the rows of one run, or of all this recorder's runs, and of the runs that these started, by table.

    The rows are in chronological order. All tables are empty if the run is unknown.
    """
    members, started = related_recorders(recorder), defaultdict(list)
    for member in members:
        for child, parent in _parents(member).items():
            started[parent].append(child)
    waiting = [*_parents(recorder)] if run_id is None else [run_id]
    found = set()
    while waiting:
        found.add(latest := waiting.pop())
        waiting += [child for child in started[latest] if child not in found]
    if run_id is not None:
        members = {member: found if run_ids is None else found & run_ids for member, run_ids in members.items()}
    tables = combined_rows(members.items(), names)
    return {
        name: sorted((row for row in tables[name] if row["run_id"] in found), key=lambda row: row["ts"])
        for name in names
    }


def _parents(recorder: Recorder) -> dict[str, str | None]:
    """The id of each run, mapped to the id of the run that started it."""
    with recorder.lock:
        return dict(recorder.flush().get("SELECT run_id, parent_run_id FROM runs"))


def add_sessions(recorder: Recorder, other: Recorder) -> None:
    """Append the rows of sessions that only `other` contains. No run may be in progress."""
    with recorder.lock:
        sessions = {session_id for (session_id,) in recorder.flush().get("SELECT DISTINCT session_id FROM runs")}
        for name in TABLES:
            rows = [row for row in other.rows(name) if row["session_id"] not in sessions]
            if key := _SHARED_KEYS.get(name):
                known = {row[key] for row in recorder.rows(name)}
                rows = [row for row in rows if row[key] not in known]
            recorder.add_rows(name, rows)


def add_runs(recorder: Recorder, tables: Mapping[str, list[Row]]) -> None:
    """Append completed runs that another process recorded. This recorder may have runs in progress.

    Shared rows that this recorder already has, such as system prompts, are omitted.
    """
    with recorder.lock:
        for name, rows in tables.items():
            key = _OF_MANY_RUNS.get(name)
            recorder.add_rows(name, [row for row in rows if not key or not recorder.rows(name, f"{key} = ?", row[key])])
        recorder.bytes += sum(EVENT_BYTES + len(row["content"]) for row in tables["events"])
        recorder.end_turn()
