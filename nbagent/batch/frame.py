"""Answers as a DataFrame beside the data that was asked about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from nbagent.batch.answer import Answer
from nbagent.trace.columns import COUNT, REAL, TEXT

#: The columns after the answer.
COLUMNS = {
    "status": TEXT, "error": TEXT, "input_tokens": COUNT, "output_tokens": COUNT, "cost": REAL, "seconds": REAL,
    "run_id": TEXT,
}  # fmt: skip


def to_frame(index: pd.Index[Any], keys: Sequence[str], answers: Mapping[str, Answer]) -> pd.DataFrame:
    """A row for each key, aligned with the index. Rows without an answer have the status "left"."""
    rows = [answers.get(key) or Answer(key, "left") for key in keys]
    text = [row.text if row.is_final else None for row in rows]
    columns = {"answer": pd.Series(text, index=index, dtype=TEXT)}
    for name, kind in COLUMNS.items():
        columns[name] = pd.Series([getattr(row, name) for row in rows], index=index, dtype=kind)
    return pd.DataFrame(columns, index=index)
