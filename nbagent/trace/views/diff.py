"""What differed between two runs: `Trace.diff`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any

from nbagent.trace.open_run import USAGE
from nbagent.trace.rows import Row

if TYPE_CHECKING:
    import pandas as pd

#: The columns that are compared, by table. Ids and moments differ always and say nothing.
COMPARED: dict[str, tuple[str, ...]] = {
    "runs": (
        "prompt", "output", "status", "error_type", "error_message", "n_calls", "n_tool_calls", *USAGE, "cost_usd",
        "duration_s",
    ),
    "calls": ("provider", "model", "thinking_level", "tool_choice", "finish_reason", "error_type"),
    "messages": ("role", "text"),
    "tool_calls": ("name", "args", "args_valid", "approval", "result_text", "is_error", "error_type"),
}  # fmt: skip
#: What makes two rows the same one; and where that finds none, what must agree at least.
_SAME: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "runs": ((), ()),
    "calls": (("step",), ("step",)),
    "messages": (("role", "text"), ("role",)),
    "tool_calls": (("name", "args"), ("name",)),
}
_COLUMNS = ("table", "place", "name", "column", "a", "b")

Pair = tuple[Row | None, Row | None]


def diff(a: Mapping[str, Sequence[Row]], b: Mapping[str, Sequence[Row]]) -> pd.DataFrame:
    """See `Trace.diff`; takes the rows of the two runs, by table."""
    import pandas as pd

    from nbagent.trace.columns import COUNT, REAL, TEXT

    found = [row for table in COMPARED for row in _of_table(table, a[table], b[table])]
    values = {name: [row[number] for row in found] for number, name in enumerate(_COLUMNS)}
    dtypes: dict[str, Any] = {"table": TEXT, "place": COUNT, "name": TEXT, "column": TEXT, "a": object, "b": object}
    frame = pd.DataFrame({name: pd.Series(values[name], dtype=dtype) for name, dtype in dtypes.items()})
    return frame.assign(change=pd.Series([_change(*row[-2:]) for row in found], dtype=REAL))


def with_system(messages: Sequence[Row], told: Sequence[Row]) -> list[Row]:
    """A run's messages, before them the system message if it has none of its own: `told` are all of the trace.

    A trace tells of a system message when it is a new one; a run without has that of the run before.
    """
    if not messages or any(row["role"] == "system" for row in messages):
        return list(messages)
    first = messages[0]
    known = [row for row in told if row["session_id"] == first["session_id"] and row["index"] < first["index"]]
    return [*known[-1:], *messages]


def _of_table(table: str, a: Sequence[Row], b: Sequence[Row]) -> Iterator[tuple[Any, ...]]:
    """A row of the result for each column that differs, in the order of the runs."""
    places = {id(row): place for rows in (a, b) for place, row in enumerate(rows)}
    for one, other in _pairs(a, b, *_SAME[table]):
        named = one or other or {}
        name = named.get("name") or named.get("role")
        for column in COMPARED[table]:
            left, right = (None if row is None else row.get(column) for row in (one, other))
            if left != right:
                yield table, places[id(named)], name, column, left, right


def _pairs(a: Sequence[Row], b: Sequence[Row], same: Sequence[str], alike: Sequence[str]) -> Iterator[Pair]:
    """Rows that stand for one another; None beside a row that only one of the runs has."""
    ours, theirs = ([_key(row, same) for row in rows] for rows in (a, b))
    for tag, begin, end, other_begin, other_end in SequenceMatcher(None, ours, theirs, autojunk=False).get_opcodes():
        left, right = a[begin:end], b[other_begin:other_end]
        yield from zip(left, right, strict=True) if tag == "equal" else _alike(left, right, alike)


def _key(row: Row, names: Sequence[str]) -> tuple[Any, ...]:
    return tuple(row.get(name) for name in names)


def _alike(a: Sequence[Row], b: Sequence[Row], names: Sequence[str]) -> Iterator[Pair]:
    """Of what is not the same, the first that is alike, in order; then what is left."""
    waiting = list(b)
    for row in a:
        other = next((each for each in waiting if _key(each, names) == _key(row, names)), None)
        if other is not None:
            waiting.remove(other)
        yield row, other
    for row in waiting:
        yield None, row


def _change(a: Any, b: Any) -> float | None:
    """How much more, where both are numbers."""
    numbers = [value for value in (a, b) if isinstance(value, int | float) and not isinstance(value, bool)]
    return numbers[1] - numbers[0] if len(numbers) == 2 else None
