"""The tables of a trace as DataFrames, with a pandas dtype for each kind of column in `schema`.

The dtypes don't depend on the data: text is the pandas string type, counts are `Int64`, seconds and dollars `Float64`,
flags `boolean`, times `datetime64[us, UTC]`, and values from a short list are categories. An unknown value is NA, never
0. An empty table has all its columns. Tool arguments are Python objects in the tables that users see, but JSON text
elsewhere.
"""

from __future__ import annotations

import gc
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
import pandas as pd
from pydantic_core import from_json

from nbagent.core.render.control_chars import show_control_chars
from nbagent.core.render.markdown import NO_TEX
from nbagent.trace import schema
from nbagent.trace.rows import Row
from nbagent.trace.schema import USAGE
from nbagent.trace.store import Columns, TraceStore

try:
    import pyarrow as pa
except ImportError:  # pandas then keeps text as Python strings
    pa = None

TEXT = "str" if int(pd.__version__.split(".")[0]) >= 3 else "string"
COUNT, REAL, FLAG, TIME = "Int64", "Float64", "boolean", "datetime64[us, UTC]"
#: JSON text, until `with_objects` parses it.
JSON = "object"

Dtype = str | pd.CategoricalDtype
_DTYPES = {
    schema.TEXT: TEXT, schema.JSON: JSON, schema.COUNT: COUNT, schema.REAL: REAL, schema.FLAG: FLAG, schema.TIME: TIME,
}  # fmt: skip
#: The dtype of each column.
COLUMNS: dict[str, dict[str, Dtype]] = {
    table: {
        name: _DTYPES[kind] if isinstance(kind, str) else pd.CategoricalDtype(list(kind))
        for name, kind in kinds.items()
    }
    for table, kinds in schema.KINDS.items()
}

#: The rows of a display, and the characters of a value in a text display.
ROWS, TEXT_WIDTH = 20, 60

#: The columns that a table displays. Ids and times, which differ between runs, are hidden but present.
DISPLAYED: dict[str, list[str]] = {
    "runs": ["prompt", "output", "status", "n_calls", "n_tool_calls", "input_tokens", "output_tokens", "cost_usd"],
    "calls": ["step", "provider", "model", "finish_reason", "input_tokens", "output_tokens", "cost_usd"],
    "messages": ["role", "text"],
    "blocks": ["type", "name", "text", "signature", "media_type"],
    "tool_calls": ["name", "args", "result_text", "args_valid", "is_error"],
    "cells": ["cell", "kind", "before", "after"],
    "citations": ["text", "title", "url", "cited_text"],
    "thinking": ["text", "chars"],
    "events": ["type", "name", "content"],
    "scores": ["name", "value", "comment", "by"],
    "environment": ["git_commit", "git_dirty", "python", "kernel", "host", "platform"],
    "prompts": ["kind", "text", "chars"],
    "http": ["attempt", "method", "url", "status", "error_type", "request_bytes", "response_bytes"],
    "usage": ["provider", "model", "n_calls", "input_tokens", "output_tokens", "total_tokens", "cost_usd"],
}


class TraceFrame(pd.DataFrame):
    """A table of a trace. Its display shows only the most useful columns and makes control characters visible."""

    _metadata: ClassVar[list[str]] = ["table"]
    table: str

    def shown(self) -> pd.DataFrame:
        """The displayed columns: those in `DISPLAYED`, or all columns if one of those is missing."""
        frame, names = pd.DataFrame(self), DISPLAYED[self.table]
        return frame[names] if frame.columns.isin(names).sum() == len(names) else frame

    def unique(self, key: str, keep: Literal["first", "last"] = "first") -> TraceFrame:
        """The first or last row for each value of the column `key`."""
        return named(self.drop_duplicates(key, keep=keep, ignore_index=True), self.table)

    def __repr__(self) -> str:
        text: str = self.shown().to_string(max_rows=ROWS, max_colwidth=TEXT_WIDTH, show_dimensions=len(self) > ROWS)
        return show_control_chars(text)

    def _repr_html_(self) -> str | None:
        html: str = self.shown().to_html(notebook=True, max_rows=ROWS, classes=NO_TEX)
        return show_control_chars(html)


def table_frame(name: str, store: TraceStore, wanted: Collection[str] | None = None) -> TraceFrame:
    """Return a table with all its columns, or with only `run_id` and the `wanted` columns."""
    dtypes = {
        column: dtype
        for column, dtype in COLUMNS[name].items()
        if wanted is None or column == "run_id" or column in wanted
    }
    was_enabled = gc.isenabled()
    gc.disable()  # scanning a million new objects repeatedly takes half of the time
    try:
        return _from_parts(name, dtypes, store.parts(name, dtypes))
    finally:
        if was_enabled:
            gc.enable()


def with_objects(frame: TraceFrame) -> TraceFrame:
    """Parse the JSON columns. Each call creates new objects, so users may change them."""
    for name in [name for name, dtype in COLUMNS[frame.table].items() if dtype == JSON and name in frame]:
        values = [from_json(text) for text in frame[name].fillna("null")]
        frame[name] = pd.Series(values, index=frame.index, dtype=object)
    return frame


def build(name: str, rows: Sequence[Row]) -> TraceFrame:
    """Return a table with these rows, in the declared columns and dtypes."""
    dtypes = COLUMNS[name]
    return _from_parts(name, dtypes, [{column: [row.get(column) for row in rows] for column in dtypes}])


def _from_parts(name: str, dtypes: Mapping[str, Dtype], parts: Iterable[Columns]) -> TraceFrame:
    columns: dict[str, list[Any]] = {column: [] for column in dtypes}
    for part in parts:
        for column in columns:
            if pa is not None and dtypes[column] in (TEXT, JSON):  # pandas takes three times as long
                columns[column].append(pa.array(part[column], pa.large_string()))
            else:
                columns[column] += part[column]
    arrays = {column: _array(values, dtypes[column]) for column, values in columns.items()}
    return named(pd.DataFrame(arrays, copy=False), name)


def named(frame: pd.DataFrame, name: str) -> TraceFrame:
    """Return the frame as a `TraceFrame` that is displayed like the table `name`."""
    made = TraceFrame(frame)
    made.table = name
    return made


def usage_frame(calls: pd.DataFrame) -> TraceFrame:
    """Return token counts and cost, grouped by run, provider, model, day (UTC), and whether answers were replayed.

    If any cost in a group is unknown, the group's cost is unknown.
    """
    replayed = calls["replayed"].fillna(False)
    frame = pd.DataFrame(calls).assign(
        day=calls["started"].dt.floor("D"), unknown=calls["cost_usd"].isna(), replayed=replayed
    )
    keys = ["run_id", "session_id", "provider", "model", "day", "replayed"]
    grouped = frame.groupby(keys, sort=False, dropna=False)
    sums = grouped[[*USAGE, "cost_usd"]].sum(min_count=1)
    sums["cost_usd"] = sums["cost_usd"].mask(grouped["unknown"].any().to_numpy())
    sums["n_calls"] = grouped.size()
    sums["ts"] = grouped["ts"].min()
    sums["cell_id"] = grouped["cell_id"].first()
    sums = sums.reset_index()
    return named(sums.astype(COLUMNS["usage"])[list(COLUMNS["usage"])], "usage")


def _array(values: list[Any], dtype: Dtype) -> Any:
    """Return the values with their dtype. With pyarrow, texts are passed as Arrow arrays."""
    if dtype == TIME:
        return _times(values)
    if dtype in (TEXT, JSON):
        texts: Any = values if pa is None else pa.chunked_array(values)
        return pd.array(texts, dtype=TEXT)
    known = [None if value is None else bool(value) for value in values] if dtype == FLAG else values
    return pd.Series(known, dtype=dtype).array


def _times(values: Sequence[Any]) -> pd.DatetimeIndex:
    """Convert Unix seconds to times, rounded to microseconds."""
    seconds = np.array(values, dtype="float64")
    whole = np.full(len(values), np.datetime64("NaT"), dtype="datetime64[us]")
    known = ~np.isnan(seconds)
    whole[known] = np.rint(seconds[known] * 1e6).astype("int64").view("datetime64[us]")
    return pd.DatetimeIndex(whole).tz_localize("UTC")
