"""The runs that belong to a trace though other traces record them: those of forks, and those that its tools started."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nbagent.trace.joined import joined
from nbagent.trace.recorder import Recorder
from nbagent.trace.rows import Row
from nbagent.trace.schema import TABLES

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


def _rows(recorder: Recorder, run_ids: set[str] | None) -> dict[str, list[Row]]:
    every = {name: recorder.rows(name) for name in TABLES}
    if run_ids is None:
        return every
    return {
        name: [row for row in rows if name in _SERVING_MANY or row["run_id"] in run_ids] for name, rows in every.items()
    }
