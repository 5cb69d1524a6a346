"""A map's answers as a DataFrame, aligned with the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from nbagent.batch.answer import Answer
from nbagent.batch.fields import ANSWER, columns_of, columns_of_items, exploded
from nbagent.trace.columns import COUNT, REAL, TEXT

#: The columns after the answer.
COLUMNS = {
    "status": TEXT, "error": TEXT, "input_tokens": COUNT, "output_tokens": COUNT, "cost": REAL, "seconds": REAL,
    "run_id": TEXT,
}  # fmt: skip
#: Columns that are 0 except for the first of equal rows, so their sum is the total spent.
SPENT = frozenset({"input_tokens", "output_tokens", "cost"})
#: The prefix of one of `COLUMNS` if the output model has a field with that name.
PREFIX = "row_"
#: A temporary column with the key of each item's row.
_KEY = "key of the row"


def to_frame(
    index: pd.Index[Any],
    keys: Sequence[str],
    answers: Mapping[str, Answer],
    output: Any = None,
    explode: str | None = None,
) -> pd.DataFrame:
    """Return a frame with a row for each key, aligned with the index. Rows without an answer have the status "left".

    Among equal rows, and among the items of one row, the first shows the tokens and the cost, and the others show 0.
    The answer's columns are the fields of `output` (see `fields`) or, without `output`, a single column, `answer`. If a
    field of `output` has the name of another column, such as `status`, the other column is renamed `row_status`.
    """
    rows = [answers.get(key) or Answer(key, "left") for key in keys]
    if output is None:
        text = [row.text if row.is_final else None for row in rows]
        columns = {ANSWER: pd.Series(text, index=index, dtype=TEXT)}
    else:
        columns = columns_of(output, [row.values for row in rows], index)
    taken = {*columns, *(() if explode is None else columns_of_items(output, explode))}
    titles = {name: f"{PREFIX}{name}" if name in taken else name for name in COLUMNS}
    for name, kind in COLUMNS.items():
        columns[titles[name]] = pd.Series([getattr(row, name) for row in rows], index=index, dtype=kind)
    frame, row_keys = pd.DataFrame(columns, index=index), pd.Series(keys, index=index, dtype=TEXT)
    if explode is not None:
        frame = exploded(frame.assign(**{_KEY: row_keys}), explode, output)
        row_keys = frame.pop(_KEY)
    is_repeated = row_keys.duplicated().to_numpy()
    for name in SPENT:
        spent = frame[titles[name]]
        frame[titles[name]] = spent.mask(is_repeated & spent.notna().to_numpy(), 0)
    return frame


def title_of(name: str, rows: pd.DataFrame) -> str:
    """Return the name that one of `COLUMNS` has in a map's frame."""
    return f"{PREFIX}{name}" if f"{PREFIX}{name}" in rows else name
