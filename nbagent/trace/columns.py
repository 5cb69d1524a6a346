"""The tables of a trace as DataFrames. Their columns are declared here, and only here.

dtypes are stable: text is the pandas string type, counts are `Int64`, seconds and dollars `Float64`, flags `boolean`,
times `datetime64[us, UTC]`, and values from a short list are categories. An unknown value is NA, never 0. An empty
table has all its columns. Arguments of tools are Python objects in the tables that users see, and JSON text before that
and in files.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, ClassVar, get_args

import numpy as np
import pandas as pd
from pydantic_core import from_json

from nbagent.core.messages import well_formed
from nbagent.core.render.control_chars import show_control_chars
from nbagent.core.render.markdown import NO_TEX
from nbagent.core.results import Status
from nbagent.trace.open_run import USAGE
from nbagent.trace.table import Columns, Row, Table, by_column, count_of

try:
    import pyarrow as pa
except ImportError:  # pandas then keeps text as Python strings
    pa = None

TEXT = "str" if int(pd.__version__.split(".")[0]) >= 3 else "string"
COUNT, REAL, FLAG, TIME = "Int64", "Float64", "boolean", "datetime64[us, UTC]"
#: JSON text until a user looks at the table: see `with_objects`.
JSON = "object"

Dtype = str | pd.CategoricalDtype
_STATUS = pd.CategoricalDtype(["running", *get_args(Status)])
_ROLE = pd.CategoricalDtype(["system", "user", "assistant", "tool"])
_BLOCK = pd.CategoricalDtype(
    ["text", "thinking", "redacted", "tool_call", "tool_result", "image", "document", "refusal", "compaction"]
)
_APPROVAL = pd.CategoricalDtype(["auto", "approved", "edited", "allowed", "denied"])
_KIND = pd.CategoricalDtype(["visible", "omitted", "redacted"])

_USAGE: dict[str, Dtype] = dict.fromkeys(USAGE, COUNT)
#: In every table, at its end, after its other ids. `cell_id` is the front end's id of the cell that asked, or `In[3]`
#: where it sends none (nbclient, papermill, a terminal): the number of the run, which the saved cell has, too. It is NA
#: where no cell asked, and where runs have no number either (Voila).
_SHARED: dict[str, Dtype] = {"run_id": TEXT, "session_id": TEXT, "cell_id": TEXT, "ts": TIME}

#: What is worth reading comes first, then what is technical, then ids.
COLUMNS: dict[str, dict[str, Dtype]] = {
    # one row per question; `cost_usd` was paid, `replayed_cost_usd` when the replayed answers were recorded
    "runs": {
        "prompt": TEXT, "output": TEXT, "status": _STATUS, "n_calls": COUNT, "n_tool_calls": COUNT, **_USAGE,
        "cost_usd": REAL, "duration_s": REAL, "started": TIME, "ended": TIME, "agent": TEXT, "source": TEXT,
        "execution_count": COUNT, "status_reason": TEXT, "error_type": TEXT, "error_message": TEXT, "tags": TEXT,
        "user": TEXT, "session": TEXT, "metadata": TEXT, "output_type": TEXT, "replayed": FLAG,
        "replayed_cost_usd": REAL, "cost_known": FLAG, "parent_run_id": TEXT,
        "parent_tool_call_id": TEXT, "branch": TEXT,
    },
    # one row per model request
    "calls": {
        "provider": TEXT, "model": TEXT, "step": COUNT, "finish_reason": TEXT, **_USAGE, "cost_usd": REAL,
        "duration_s": REAL, "ttft_s": REAL, "thinking_s": REAL, "setup_s": REAL, "started": TIME, "error_type": TEXT,
        "error_message": TEXT, "error_code": TEXT, "http_status": COUNT, "attempt": COUNT, "retries": COUNT,
        "retry_wait_s": REAL, "thinking_level": TEXT, "tool_choice": TEXT, "params": TEXT, "refused": TEXT,
        "speaker": TEXT, "reminder": TEXT, "stream": FLAG, "n_messages_in": COUNT, "messages_in": TEXT, "quoted": FLAG,
        "cache_hit": FLAG, "replayed": FLAG, "usage_estimated": FLAG, "usage_raw": TEXT, "finish_reason_raw": TEXT,
        "response_model": TEXT, "base_url_host": TEXT, "response_id": TEXT, "system_hash": TEXT, "tools_hash": TEXT,
        "span_id": TEXT, "parent_span_id": TEXT, "call_id": TEXT,
    },
    # one row per message that entered the conversation
    "messages": {
        "role": _ROLE, "text": TEXT, "n_blocks": COUNT, "tokens_est": COUNT, "pinned": FLAG, "trimmed": FLAG,
        "turn": COUNT, "index": COUNT, "data": TEXT, "message_id": TEXT, "parent_id": TEXT, "branch": TEXT,
        "call_id": TEXT,
    },
    # one row per block of a message
    "blocks": {
        "type": _BLOCK, "name": TEXT, "text": TEXT, "chars": COUNT, "signature": FLAG, "media_type": TEXT,
        "index": COUNT, "sha256": TEXT, "provider_data": TEXT, "block_id": TEXT, "message_id": TEXT, "call_id": TEXT,
        "tool_call_id": TEXT,
    },
    # one row per tool call
    "tool_calls": {
        "name": TEXT, "args": JSON, "result_text": TEXT, "is_error": FLAG, "duration_s": REAL, "approval": _APPROVAL,
        "approval_wait_s": REAL, "error_type": TEXT, "error_message": TEXT, "outputs": TEXT, "args_valid": FLAG,
        "validation_error": TEXT, "validation_kind": TEXT, "validation_field": TEXT, "repaired": FLAG,
        "args_sent": JSON, "args_repaired": JSON, "args_raw": TEXT, "result_type": TEXT, "result_repr": TEXT,
        "truncated": FLAG, "result_chars": COUNT, "started": TIME, "ended": TIME, "step": COUNT, "index": COUNT,
        "source": TEXT, "function_version": TEXT, "cell_id_of_definition": TEXT, "traceback": TEXT,
        "tool_call_id": TEXT,
        "wire_id": TEXT, "call_id": TEXT, "parallel_group": TEXT,
    },
    # one row per source of a part of an answer, by a tool that the vendor ran: characters `start` to `end` of its text
    "citations": {
        "text": TEXT, "title": TEXT, "url": TEXT, "cited_text": TEXT, "start": COUNT, "end": COUNT, "index": COUNT,
        "message_id": TEXT, "call_id": TEXT,
    },
    # one row per stretch of thinking
    "thinking": {
        "text": TEXT, "chars": COUNT, "kind": _KIND, "reasoning_tokens": COUNT, "index": COUNT, "call_id": TEXT,
    },
    # one row per event, except the pieces of a stream
    "events": {
        "type": TEXT, "name": TEXT, "content": TEXT, "data": TEXT, "event_id": COUNT, "call_id": TEXT,
        "tool_call_id": TEXT,
    },
    # one row per HTTP exchange while `record_http` is on; headers are JSON objects, bodies the text that was sent
    "http": {
        "method": TEXT, "url": TEXT, "status": COUNT, "attempt": COUNT, "error_type": TEXT, "error_message": TEXT,
        "duration_s": REAL, "ttfb_s": REAL, "started": TIME, "request_bytes": COUNT, "response_bytes": COUNT,
        "request_headers": TEXT, "request_body": TEXT, "response_headers": TEXT, "response_body": TEXT,
        "http_version": TEXT, "complete": FLAG, "truncated": FLAG, "secrets": TEXT, "request_id": TEXT,
        "call_id": TEXT,
    },
    # one row per text that requests share: system prompts, definitions of tools
    "prompts": {"kind": TEXT, "text": TEXT, "chars": COUNT, "hash": TEXT},
    # one row per judgement of a run, a call or a tool call, by a person or a program
    "scores": {"name": TEXT, "value": REAL, "comment": TEXT, "by": TEXT, "call_id": TEXT, "tool_call_id": TEXT},
    # one row per session; packages is a JSON object
    "environment": {
        "git_commit": TEXT, "git_dirty": FLAG, "python": TEXT, "packages": TEXT, "kernel": TEXT, "host": TEXT,
        "platform": TEXT,
    },
    # `calls` summed by run, vendor, model and day
    "usage": {
        "provider": TEXT, "model": TEXT, "day": TIME, "n_calls": COUNT, **_USAGE, "cost_usd": REAL, "replayed": FLAG,
    },
}  # fmt: skip
for _columns in COLUMNS.values():
    _columns.update({name: dtype for name, dtype in _SHARED.items() if name not in _columns})

#: A frame of more rows does not stay in memory. By default, about as many events fit into `Trace.max_bytes`.
MOST_KEPT = 150_000
#: Rows of a display, and characters of one value in a text display.
ROWS, TEXT_WIDTH = 20, 60

#: The columns that a whole table displays. Ids and times, which differ from run to run, are hidden but present.
DISPLAYED: dict[str, list[str]] = {
    "runs": ["prompt", "output", "status", "n_calls", "n_tool_calls", "input_tokens", "output_tokens", "cost_usd"],
    "calls": ["step", "provider", "model", "finish_reason", "input_tokens", "output_tokens", "cost_usd"],
    "messages": ["role", "text"],
    "blocks": ["type", "name", "text", "signature", "media_type"],
    "tool_calls": ["name", "args", "result_text", "args_valid", "is_error"],
    "citations": ["text", "title", "url", "cited_text"],
    "thinking": ["text", "chars"],
    "events": ["type", "name", "content"],
    "scores": ["name", "value", "comment", "by"],
    "environment": ["git_commit", "git_dirty", "python", "kernel", "host", "platform"],
    "prompts": ["kind", "text", "chars"],
    "http": ["attempt", "method", "url", "status", "error_type", "request_bytes", "response_bytes"],
    "usage": ["provider", "model", "n_calls", "input_tokens", "output_tokens", "total_tokens", "cost_usd"],
}


class TraceSelection(pd.DataFrame):
    """Rows and columns of a trace: a DataFrame whose display shows the control characters in what a model said."""

    @property
    def _constructor(self) -> type[pd.DataFrame]:
        return TraceSelection

    @property
    def _constructor_sliced(self) -> type[pd.Series[Any]]:
        return TraceColumn

    def __repr__(self) -> str:
        return show_control_chars(super().__repr__())

    def _repr_html_(self) -> str | None:
        html: str | None = super()._repr_html_()  # type: ignore[misc]  # the types of pandas lack it
        return None if html is None else show_control_chars(html)


class TraceColumn(pd.Series):
    """The same for one column."""

    @property
    def _constructor(self) -> type[pd.Series[Any]]:
        return TraceColumn

    @property
    def _constructor_expanddim(self) -> type[pd.DataFrame]:
        return TraceSelection

    def __repr__(self) -> str:
        return show_control_chars(super().__repr__())


class TraceFrame(TraceSelection):
    """A table of a trace: it displays the columns worth reading."""

    _metadata: ClassVar[list[str]] = ["table"]
    table: str

    def shown(self) -> pd.DataFrame:
        """The columns that are displayed: all of them where a user removed one of those in `DISPLAYED`."""
        frame, names = pd.DataFrame(self), DISPLAYED[self.table]
        return frame[names] if frame.columns.isin(names).sum() == len(names) else frame

    def once(self, key: str) -> TraceFrame:
        """The first row for each value of a column."""
        return named(self.drop_duplicates(key, ignore_index=True), self.table)

    def __repr__(self) -> str:
        text: str = self.shown().to_string(max_rows=ROWS, max_colwidth=TEXT_WIDTH, show_dimensions=len(self) > ROWS)
        return show_control_chars(text)

    def _repr_html_(self) -> str | None:
        html: str = self.shown().to_html(notebook=True, max_rows=ROWS, classes=NO_TEX)
        return show_control_chars(html)


def table_frame(name: str, table: Table, wanted: Collection[str] | None = None) -> TraceFrame:
    """The whole table. A small one keeps the frame of its settled rows, which grows with them.

    Of a large one, only the `wanted` columns are read, if there are any; nothing of it stays in memory.
    """
    if table.is_spilled or table.settled > MOST_KEPT:
        table.frame, names = None, COLUMNS[name] if wanted is None else {"run_id", *wanted}
        parts = (*table.parts(names=names), by_column(list(table.since(table.settled))))
        return stacked([_from_columns(name, columns, names) for columns in parts])
    made = build(name, []) if table.frame is None else table.frame
    if len(made) < table.settled:
        made = table.frame = stacked([made, *(_from_columns(name, columns) for columns in table.parts(len(made)))])
    return stacked([made, build(name, list(table.since(table.settled)))])


def with_objects(frame: TraceFrame) -> TraceFrame:
    """The table as users see it: its JSON as objects. They are made for each look, so that users may change them."""
    for name in [name for name, dtype in COLUMNS[frame.table].items() if dtype == JSON and name in frame]:
        values = [from_json(text) for text in frame[name].fillna("null")]
        frame[name] = pd.Series(values, index=frame.index, dtype=object)
    return frame


def build(name: str, rows: Sequence[Row]) -> TraceFrame:
    """A table of these rows, with the declared columns and dtypes."""
    return _from_columns(name, by_column(rows))


def _from_columns(name: str, columns: Columns, names: Collection[str] | None = None) -> TraceFrame:
    """The declared columns, or those of these names."""
    count, declared = count_of(columns), COLUMNS[name].items()
    arrays = {
        column: _array(columns.get(column), count, dtype)
        for column, dtype in declared
        if names is None or column in names
    }
    return named(pd.DataFrame(arrays, copy=False), name)


def stacked(frames: Sequence[TraceFrame]) -> TraceFrame:
    """A copy, one below the other."""
    return named(pd.concat(frames, ignore_index=True), frames[0].table)


def named(frame: pd.DataFrame, name: str) -> TraceFrame:
    """The frame, displayed as the table `name`."""
    made = TraceFrame(frame)
    made.table = name
    return made


def usage_frame(calls: pd.DataFrame) -> TraceFrame:
    """Token counts and cost by run, vendor, model, day, and replayed or not. One unknown cost makes the sum unknown."""
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


def _array(values: list[Any] | None, count: int, dtype: Dtype) -> Any:
    """The values with their dtype; NA where the column is missing."""
    if dtype == JSON:
        dtype = TEXT
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
