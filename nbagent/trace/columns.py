"""The tables of a trace as DataFrames. Their columns are declared here, and only here.

dtypes are stable: text is the pandas string type, counts are `Int64`, seconds and dollars `Float64`, flags `boolean`,
times `datetime64[us, UTC]`, and values from a short list are categories. An unknown value is NA, never 0. An empty
table has all its columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from nbagent.core.messages import well_formed
from nbagent.core.render.control_chars import show_control_chars
from nbagent.core.render.markdown import NO_TEX
from nbagent.trace.recorder import USAGE
from nbagent.trace.table import Columns, Row, Table, by_column, count_of

try:
    import pyarrow as pa
except ImportError:  # pandas then keeps text as Python strings
    pa = None

TEXT = "str" if int(pd.__version__.split(".")[0]) >= 3 else "string"
COUNT, REAL, FLAG, TIME = "Int64", "Float64", "boolean", "datetime64[us, UTC]"

Dtype = str | pd.CategoricalDtype
_STATUS = pd.CategoricalDtype(["running", "ok", "limit", "denied", "interrupted", "error"])
_ROLE = pd.CategoricalDtype(["system", "user", "assistant", "tool"])
_BLOCK = pd.CategoricalDtype(["text", "thinking", "redacted", "tool_call", "tool_result", "image", "refusal"])
_APPROVAL = pd.CategoricalDtype(["auto", "approved", "edited", "denied"])
_KIND = pd.CategoricalDtype(["visible", "omitted", "redacted"])

_USAGE: dict[str, Dtype] = dict.fromkeys(USAGE, COUNT)
#: In every table, at its end.
_SHARED: dict[str, Dtype] = {"run_id": TEXT, "session_id": TEXT, "cell_id": TEXT, "ts": TIME}

COLUMNS: dict[str, dict[str, Dtype]] = {
    # one row per question
    "runs": {
        "run_id": TEXT, "parent_run_id": TEXT, "branch": TEXT, "agent": TEXT, "source": TEXT, "cell_id": TEXT,
        "execution_count": COUNT, "prompt": TEXT, "output": TEXT, "output_type": TEXT, "status": _STATUS,
        "error_type": TEXT, "error_message": TEXT, "n_calls": COUNT, "n_tool_calls": COUNT, **_USAGE,
        "cost_usd": REAL, "cost_known": FLAG, "started": TIME, "ended": TIME, "duration_s": REAL, "replayed": FLAG,
    },
    # one row per model request
    "calls": {
        "call_id": TEXT, "step": COUNT, "attempt": COUNT, "provider": TEXT, "base_url_host": TEXT, "model": TEXT,
        "response_model": TEXT, "response_id": TEXT, "stream": FLAG, "n_messages_in": COUNT, "params": TEXT,
        "thinking_level": TEXT, "tool_choice": TEXT, "finish_reason": TEXT, "finish_reason_raw": TEXT, **_USAGE,
        "usage_raw": TEXT, "usage_estimated": FLAG, "cost_usd": REAL, "started": TIME, "ttft_s": REAL,
        "thinking_s": REAL, "duration_s": REAL, "retries": COUNT, "retry_wait_s": REAL, "http_status": COUNT,
        "error_type": TEXT, "error_message": TEXT, "quoted": FLAG, "cache_hit": FLAG, "replayed": FLAG, "span_id": TEXT,
        "parent_span_id": TEXT,
    },
    # one row per message that entered the conversation
    "messages": {
        "message_id": TEXT, "parent_id": TEXT, "branch": TEXT, "turn": COUNT, "index": COUNT, "role": _ROLE,
        "text": TEXT, "n_blocks": COUNT, "call_id": TEXT, "tokens_est": COUNT, "pinned": FLAG, "trimmed": FLAG,
    },
    # one row per block of a message
    "blocks": {
        "block_id": TEXT, "message_id": TEXT, "index": COUNT, "type": _BLOCK, "name": TEXT, "text": TEXT,
        "chars": COUNT, "signature": FLAG, "media_type": TEXT, "sha256": TEXT, "provider_data": TEXT, "call_id": TEXT,
        "tool_call_id": TEXT,
    },
    # one row per tool call
    "tool_calls": {
        "tool_call_id": TEXT, "wire_id": TEXT, "call_id": TEXT, "step": COUNT, "parallel_group": TEXT, "index": COUNT,
        "name": TEXT, "args": TEXT, "args_raw": TEXT, "args_valid": FLAG, "validation_error": TEXT, "repaired": FLAG,
        "approval": _APPROVAL, "result_text": TEXT, "result_type": TEXT, "result_repr": TEXT, "truncated": FLAG,
        "result_chars": COUNT, "is_error": FLAG, "error_type": TEXT, "error_message": TEXT, "started": TIME,
        "ended": TIME, "duration_s": REAL, "function_version": TEXT, "cell_id_of_definition": TEXT, "traceback": TEXT,
    },
    # one row per stretch of thinking
    "thinking": {
        "call_id": TEXT, "index": COUNT, "text": TEXT, "chars": COUNT, "kind": _KIND, "reasoning_tokens": COUNT,
    },
    # one row per event, except the pieces of a stream
    "events": {
        "event_id": COUNT, "type": TEXT, "name": TEXT, "call_id": TEXT, "tool_call_id": TEXT, "content": TEXT,
        "data": TEXT,
    },
    # one row per HTTP exchange while `record_http` is on; headers are JSON objects, bodies the text that was sent
    "http": {
        "call_id": TEXT, "attempt": COUNT, "method": TEXT, "url": TEXT, "status": COUNT, "request_headers": TEXT,
        "request_body": TEXT, "response_headers": TEXT, "response_body": TEXT, "error_type": TEXT,
        "error_message": TEXT, "request_id": TEXT, "http_version": TEXT, "started": TIME, "ttfb_s": REAL,
        "duration_s": REAL, "request_bytes": COUNT, "response_bytes": COUNT, "complete": FLAG, "truncated": FLAG,
        "secrets": TEXT,
    },
    # `calls` summed by run, vendor, model and day
    "usage": {
        "run_id": TEXT, "provider": TEXT, "model": TEXT, "day": TIME, "n_calls": COUNT, **_USAGE, "cost_usd": REAL,
    },
}  # fmt: skip
for _columns in COLUMNS.values():
    _columns.update({name: dtype for name, dtype in _SHARED.items() if name not in _columns})

#: Rows of a display, and characters of one value in a text display.
ROWS, TEXT_WIDTH = 20, 60

#: The columns that a whole table displays. Ids and times, which differ from run to run, are hidden but present.
DISPLAYED: dict[str, list[str]] = {
    "runs": ["prompt", "output", "status", "n_calls", "n_tool_calls", "input_tokens", "output_tokens", "cost_usd"],
    "calls": ["step", "provider", "model", "finish_reason", "input_tokens", "output_tokens", "cost_usd"],
    "messages": ["role", "text"],
    "blocks": ["type", "name", "text", "signature", "media_type"],
    "tool_calls": ["name", "args", "result_text", "args_valid", "is_error"],
    "thinking": ["text", "chars"],
    "events": ["type", "name", "content"],
    "http": ["attempt", "method", "url", "status", "error_type", "request_bytes", "response_bytes"],
    "usage": ["provider", "model", "n_calls", "input_tokens", "output_tokens", "total_tokens", "cost_usd"],
}


class TraceFrame(pd.DataFrame):
    """A table of a trace: a DataFrame that displays the columns worth reading. A selection is a plain DataFrame."""

    _metadata: ClassVar[list[str]] = ["table"]
    table: str

    @property
    def _constructor(self) -> type[pd.DataFrame]:
        return pd.DataFrame

    def shown(self) -> pd.DataFrame:
        """The columns that are displayed: all of them where a user removed one of those in `DISPLAYED`."""
        frame, names = pd.DataFrame(self), DISPLAYED[self.table]
        return frame[names] if frame.columns.isin(names).sum() == len(names) else frame

    def __repr__(self) -> str:
        text: str = self.shown().to_string(max_rows=ROWS, max_colwidth=TEXT_WIDTH, show_dimensions=len(self) > ROWS)
        return show_control_chars(text)

    def _repr_html_(self) -> str | None:
        html: str = self.shown().to_html(notebook=True, max_rows=ROWS, classes=NO_TEX)
        return show_control_chars(html)


def table_frame(name: str, table: Table) -> TraceFrame:
    """The whole table. The DataFrame of its settled rows is kept in `table.frame`, and grows with them."""
    made = build(name, []) if table.frame is None else table.frame
    if len(made) < table.settled:
        made = table.frame = _stacked([made, *(_from_columns(name, columns) for columns in table.parts(len(made)))])
    return _stacked([made, build(name, table.rows)])


def build(name: str, rows: Sequence[Row]) -> TraceFrame:
    """A table of these rows, with the declared columns and dtypes."""
    return _from_columns(name, by_column(rows))


def _from_columns(name: str, columns: Columns) -> TraceFrame:
    count = count_of(columns)
    arrays = {column: _array(columns.get(column), count, dtype) for column, dtype in COLUMNS[name].items()}
    return named(pd.DataFrame(arrays, copy=False), name)


def _stacked(frames: Sequence[TraceFrame]) -> TraceFrame:
    """A copy, one below the other."""
    return named(pd.concat(frames, ignore_index=True), frames[0].table)


def named(frame: pd.DataFrame, name: str) -> TraceFrame:
    """The frame, displayed as the table `name`."""
    made = TraceFrame(frame)
    made.table = name
    return made


def usage_frame(calls: pd.DataFrame) -> TraceFrame:
    """Token counts and cost by run, vendor, model and day. One unknown cost makes the sum unknown."""
    frame = pd.DataFrame(calls).assign(day=calls["started"].dt.floor("D"), unknown=calls["cost_usd"].isna())
    keys = ["run_id", "session_id", "provider", "model", "day"]
    grouped = frame.groupby(keys, sort=False, dropna=False)
    sums = grouped[[*USAGE, "cost_usd"]].sum(min_count=1)
    sums["cost_usd"] = sums["cost_usd"].mask(grouped["unknown"].any().to_numpy())
    sums["n_calls"] = grouped.size()
    sums["ts"] = grouped["ts"].min()
    sums["cell_id"] = grouped["cell_id"].first()
    sums = sums.reset_index()
    return named(sums.astype(COLUMNS["usage"])[list(COLUMNS["usage"])], "usage")


def _array(values: list[Any] | None, count: int, dtype: Dtype) -> Any:
    """The values with their dtype; NA where the column is missing."""
    if values is None or values.count(None) == count:
        return pd.Series(None, index=range(count), dtype=dtype).array
    if dtype == TIME:
        return _times(values)
    return _texts(values) if dtype == TEXT else pd.Series(values, dtype=dtype).array


def _times(values: list[Any]) -> pd.DatetimeIndex:
    """Seconds as times in whole microseconds, so that a saved and loaded time is the same."""
    seconds = np.array(values, dtype="float64")
    whole = np.full(len(values), np.datetime64("NaT"), dtype="datetime64[us]")
    known = ~np.isnan(seconds)
    whole[known] = np.rint(seconds[known] * 1e6).astype("int64").view("datetime64[us]")
    return pd.DatetimeIndex(whole).tz_localize("UTC")


def _texts(values: list[Any]) -> Any:
    """Texts; half a surrogate pair, from a file name or a model, is replaced: it could not be encoded."""
    text: Any = values
    try:
        if pa is not None:
            text = pa.array(values, pa.large_string())  # pandas itself would take three times as long
        else:
            "".join(filter(None, values)).encode()
    except (UnicodeEncodeError, TypeError):
        text = [well_formed(value) if isinstance(value, str) else value for value in values]
    return pd.array(text, dtype=TEXT)
