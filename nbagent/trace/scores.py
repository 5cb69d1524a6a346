"""Scores: ratings of runs, calls and tool calls by people and programs. See `Trace.score`.

Each score is a new row. For each target, name and author, only the newest row counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from nbagent.checks import invalid, is_number
from nbagent.core.cells import current_cell
from nbagent.trace.rows import Row
from nbagent.trace.store import TraceStore

#: The tables of targets, and the ids that a score copies, the target's own first.
_TARGETS = {
    "runs": ("run_id",),
    "calls": ("call_id", "run_id"),
    "tool_calls": ("tool_call_id", "call_id", "run_id"),
}
#: The ids of a target, the innermost last, and the columns that identify a score.
_IDS = ("run_id", "call_id", "tool_call_id")
_KEY = (*_IDS, "name", "by")


def new_score(store: TraceStore, target: Any, name: str, value: Any, comment: str | None, by: str) -> Row:
    """Return a row of `scores`. Raises ConfigurationError for an unknown id or an invalid value."""
    if not isinstance(value, bool | None) and not (is_number(value) and math.isfinite(value)):
        raise invalid("value", value, "a finite number, True or False", "None withdraws the score.")
    number = None if value is None else float(value)
    about = {"name": name, "value": number, "comment": comment, "by": by, "cell_id": current_cell().cell_id}
    return _ids_of(store, target) | about


def _ids_of(store: TraceStore, target: Any) -> Row:
    """The ids of the target, and of its run and call."""
    for table, names in _TARGETS.items() if isinstance(target, str) else ():
        query = f"SELECT {', '.join(names)} FROM {table} WHERE {names[0]} = ?"  # noqa: S608  only our own names are joined in, values are bound
        for values in store.get(query, target):
            return dict(zip(names, values, strict=True))
    fix = "trace.runs['run_id'], trace.calls['call_id'] and trace.tool_calls['tool_call_id'] list them."
    raise invalid("target", target, "the id of a run, call or tool call in this trace", fix)


def scores_that_count(log: Iterable[Row]) -> list[Row]:
    """Return the newest score for each target, name and author, without withdrawn ones.

    >>> scores_that_count([{"run_id": "r", "name": "good", "value": value, "ts": value} for value in (0, 1)])
    [{'run_id': 'r', 'name': 'good', 'value': 1, 'ts': 1}]
    """
    newest: dict[tuple[Any, ...], Row] = {}
    for row in sorted(log, key=lambda row: row["ts"] or 0):
        key = tuple(map(row.get, _KEY))
        newest.pop(key, None)
        newest[key] = row
    return [row for row in newest.values() if row["value"] is not None]


def texts_by_target(log: Iterable[Row]) -> dict[str, str]:
    """For each target, return a text that lists its scores, by the target's `run_id`, `call_id` or `tool_call_id`.

    >>> score = {"run_id": "r", "name": "good", "value": 1.0, "comment": "Short.", "by": "exam.py", "ts": 0}
    >>> texts_by_target([score])
    {'r': 'good 1 by exam.py (Short.)'}
    """
    found: dict[str, list[str]] = {}
    for row in scores_that_count(log):
        target = next((row[name] for name in reversed(_IDS) if row.get(name) is not None), "")  # a file may have none
        by = "" if row["by"] == "user" else f" by {row['by']}"
        comment = f" ({row['comment']})" if row.get("comment") else ""
        found.setdefault(target, []).append(f"{row['name']} {row['value']:g}{by}{comment}")
    return {target: ", ".join(texts) for target, texts in found.items()}
