"""The differences between two runs, for `Trace.diff`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any

from nbagent.trace.rows import Row
from nbagent.trace.schema import USAGE

if TYPE_CHECKING:
    import pandas as pd

#: The compared columns, by table. Ids and times always differ.
COMPARED: dict[str, tuple[str, ...]] = {
    "runs": (
        "prompt", "output", "status", "error_type", "error_message", "n_calls", "n_tool_calls", *USAGE, "cost_usd",
        "duration_s",
    ),
    "calls": ("provider", "model", "thinking_level", "tool_choice", "finish_reason", "error_type"),
    "messages": ("role", "text"),
    "tool_calls": ("name", "args", "args_valid", "approval", "result_text", "is_error", "error_type"),
}  # fmt: skip
#: For each table, the columns by which rows are matched first, and those for the remaining rows.
_KEYS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "runs": ((), ()),
    "calls": (("step",), ("step",)),
    "messages": (("role", "text"), ("role",)),
    "tool_calls": (("name", "args"), ("name",)),
}
_COLUMNS = ("table", "place", "name", "column", "a", "b")

Pair = tuple[Row | None, Row | None]


def diff(a: Mapping[str, Sequence[Row]], b: Mapping[str, Sequence[Row]]) -> pd.DataFrame:
    """See `Trace.diff`. `a` and `b` are the rows of the two runs, by table."""
    import pandas as pd

    from nbagent.trace.columns import COUNT, REAL, TEXT

    found = [row for table in COMPARED for row in _differences(table, a[table], b[table])]
    values = {name: [row[number] for row in found] for number, name in enumerate(_COLUMNS)}
    dtypes: dict[str, Any] = {"table": TEXT, "place": COUNT, "name": TEXT, "column": TEXT, "a": object, "b": object}
    frame = pd.DataFrame({name: pd.Series(values[name], dtype=dtype) for name, dtype in dtypes.items()})
    return frame.assign(change=pd.Series([_change(*row[-2:]) for row in found], dtype=REAL))


def _differences(table: str, a: Sequence[Row], b: Sequence[Row]) -> Iterator[tuple[Any, ...]]:
    """Yield a row of the result for each differing column, in the order of the runs."""
    places = {id(row): place for rows in (a, b) for place, row in enumerate(rows)}
    for left, right in _pairs(a, b, *_KEYS[table]):
        row = left or right or {}
        name = row.get("name") or row.get("role")
        for column in COMPARED[table]:
            old, new = (None if side is None else side.get(column) for side in (left, right))
            if old != new:
                yield table, places[id(row)], name, column, old, new


def _pairs(a: Sequence[Row], b: Sequence[Row], first: Sequence[str], then: Sequence[str]) -> Iterator[Pair]:
    """Yield matching rows in order; a row that only one run has is paired with None."""
    keys_a, keys_b = ([_key(row, first) for row in rows] for rows in (a, b))
    for tag, a_start, a_end, b_start, b_end in SequenceMatcher(None, keys_a, keys_b, autojunk=False).get_opcodes():
        left, right = a[a_start:a_end], b[b_start:b_end]
        yield from zip(left, right, strict=True) if tag == "equal" else _loose_pairs(left, right, then)


def _key(row: Row, names: Sequence[str]) -> tuple[Any, ...]:
    return tuple(row.get(name) for name in names)


def _loose_pairs(a: Sequence[Row], b: Sequence[Row], names: Sequence[str]) -> Iterator[Pair]:
    """Pair each row with the first one that agrees in `names`; then yield the remaining rows."""
    waiting = list(b)
    for row in a:
        other = next((candidate for candidate in waiting if _key(candidate, names) == _key(row, names)), None)
        if other is not None:
            waiting.remove(other)
        yield row, other
    for row in waiting:
        yield None, row


def _change(a: Any, b: Any) -> float | None:
    """Return `b` - `a` if both are numbers."""
    numbers = [value for value in (a, b) if isinstance(value, int | float) and not isinstance(value, bool)]
    return numbers[1] - numbers[0] if len(numbers) == 2 else None
