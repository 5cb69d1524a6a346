"""The runs that belong to a trace though other traces record them: those of forks, and those that its tools started."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nbagent.trace.joined import joined
from nbagent.trace.recorder import TABLES, Recorder
from nbagent.trace.table import Row

#: Tables whose rows serve many runs; each row names the first of them, or none.
_SERVING_MANY = ("prompts", "environment")


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


def rows_of_family(members: Mapping[Recorder, set[str] | None]) -> dict[str, list[Row]]:
    """The rows of what `family` found, by table, in the order of their time."""
    tables = joined([_rows(recorder, run_ids) for recorder, run_ids in members.items()])
    return {name: sorted(rows, key=lambda row: row["ts"]) for name, rows in tables.items()}


def with_those_below(runs: Iterable[Row], tops: Iterable[str]) -> set[str]:
    """The `run_id`s of these runs and, among `runs`, of those that their tools started, and so on."""
    started: dict[str | None, list[str]] = {}
    for row in runs:
        started.setdefault(row.get("parent_run_id"), []).append(row["run_id"])
    found, waiting = set[str](), list(tops)
    while waiting:
        if (run_id := waiting.pop()) not in found:
            found.add(run_id)
            waiting += started.get(run_id, ())
    return found


def _rows(recorder: Recorder, run_ids: set[str] | None) -> dict[str, list[Row]]:
    every = {name: recorder.rows(name) for name in TABLES}
    if run_ids is None:
        return every
    return {
        name: [row for row in rows if name in _SERVING_MANY or row["run_id"] in run_ids] for name, rows in every.items()
    }
