"""Answers as a DataFrame beside the data that was asked about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from nbagent.batch.answer import Answer
from nbagent.batch.fields import ANSWER, columns_of, exploded
from nbagent.trace.columns import COUNT, REAL, TEXT

#: The columns after the answer.
COLUMNS = {
    "status": TEXT, "error": TEXT, "input_tokens": COUNT, "output_tokens": COUNT, "cost": REAL, "seconds": REAL,
    "run_id": TEXT,
}  # fmt: skip
#: Those that only the first of equal rows has: the sum of a column is what was spent.
SPENT = frozenset({"input_tokens", "output_tokens", "cost"})
#: Before the name of one of these columns if the model has a field of this name.
PREFIX = "row_"


def to_frame(
    index: pd.Index[Any],
    keys: Sequence[str],
    answers: Mapping[str, Answer],
    output: Any = None,
    explode: str | None = None,
) -> pd.DataFrame:
    """A row for each key, aligned with the index. Rows without an answer have the status "left".

    Of equal rows the first has the tokens and the cost, the others have 0. With `output`, its fields are the columns of
    the answer (see `fields`), else there is one, `answer`. Where a model has a field of a later column's name, such as
    `status`, that column is called `row_status`.
    """
    rows = [answers.get(key) or Answer(key, "left") for key in keys]
    if output is None:
        text = [row.text if row.is_final else None for row in rows]
        columns = {ANSWER: pd.Series(text, index=index, dtype=TEXT)}
    else:
        columns = columns_of(output, [row.values for row in rows], index)
    is_repeated = pd.Index(keys).duplicated()
    for name, kind in COLUMNS.items():
        column = pd.Series([getattr(row, name) for row in rows], index=index, dtype=kind)
        if name in SPENT:
            column = column.mask(is_repeated & column.notna().to_numpy(), 0)
        columns[f"{PREFIX}{name}" if name in columns else name] = column
    frame = pd.DataFrame(columns, index=index)
    return frame if explode is None else exploded(frame, explode, output)
