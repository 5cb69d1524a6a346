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
_CHANGE = pd.CategoricalDtype(["add", "edit", "move", "delete", "run"])
_KIND = pd.CategoricalDtype(["visible", "omitted", "redacted"])

#: The dtype and description of each column. `make reference` writes them into `docs/reference/trace.md`.
Column = tuple[Dtype, str]
_USAGE: dict[str, Column] = {
    "input_tokens": (COUNT, "sent, those from the cache included"),
    "cache_read_tokens": (COUNT, "of these, read from the vendor's cache"),
    "cache_write_tokens": (COUNT, "of these, written to it"),
    "output_tokens": (COUNT, "received, including reasoning"),
    "reasoning_tokens": (COUNT, "of these, of the reasoning"),
    "total_tokens": (COUNT, "input and output"),
}
#: In every table, at its end, after its other ids. `cell_id` is the front end's id of the cell that asked, or `In[3]`
#: where it sends none (nbclient, papermill, a terminal): the number of the run, which the saved cell has, too. It is NA
#: where no cell asked, and where runs have no number either (Voila).
SHARED: dict[str, Column] = {
    "run_id": (TEXT, "the run: a question and all that it led to"),
    "session_id": (TEXT, "the trace that recorded it"),
    "cell_id": (
        TEXT,
        "the front end's id of the cell that asked, or `In[3]` where it sends none (nbclient, papermill, a terminal)",
    ),
    "ts": (TIME, "when the row was made"),
}

#: What is worth reading comes first, then what is technical, then ids.
DESCRIBED: dict[str, dict[str, Column]] = {
    # one row per question; `cost_usd` was paid, `replayed_cost_usd` when the replayed answers were recorded
    "runs": {
        "prompt": (TEXT, "the question"),
        "output": (TEXT, "the answer, or the text so far"),
        "status": (_STATUS, ""),
        "n_calls": (COUNT, "requests to the model"),
        "n_tool_calls": (COUNT, "tool calls"),
        **_USAGE,
        "cost_usd": (REAL, "dollars paid; `NA` if a price is not known"),
        "duration_s": (REAL, "seconds"),
        "started": (TIME, ""),
        "ended": (TIME, ""),
        "agent": (TEXT, "the variable or name of the agent"),
        "source": (
            TEXT,
            (
                "who asked: `magic` (a cell with `%%agent`), `panel`, `python`, `map`, `extract`, "
                "`summary`, `agent` (the tool of another one), `http`, `acp`, or an MCP client"
            ),
        ),
        "execution_count": (COUNT, "the number of the cell that asked"),
        "status_reason": (TEXT, "why it ended so, with the vendor's own word"),
        "error_type": (TEXT, "the class of the error"),
        "error_message": (TEXT, "its text"),
        "tags": (TEXT, "your labels, as JSON"),
        "user": (TEXT, "your label"),
        "session": (TEXT, "your label"),
        "metadata": (TEXT, "your labels, as JSON"),
        "output_type": (TEXT, "the type that `output=` asked for"),
        "replayed": (FLAG, "all answers came from a recording"),
        "replayed_cost_usd": (REAL, "what replayed answers cost when they were recorded"),
        "cost_known": (FLAG, "the price of each answer that was paid is known"),
        "parent_run_id": (TEXT, "the run whose tool asked this one"),
        "parent_tool_call_id": (TEXT, "the call of that tool"),
        "branch": (TEXT, "the branch of the conversation: the `run_id` of the run that began it"),
    },
    # one row per model request
    "calls": {
        "provider": (TEXT, "the vendor"),
        "model": (TEXT, "the model that was asked"),
        "step": (COUNT, "its number in the run, from 1"),
        "finish_reason": (
            TEXT,
            "why the answer ended: `stop`, `tool_calls`, `length`, `content_filter`, `refusal`, `pause` or `NA`",
        ),
        **_USAGE,
        "cost_usd": (
            REAL,
            "dollars, including attempts that broke off; a replayed answer has the cost in its recording",
        ),
        "duration_s": (REAL, "seconds from the time that it could be sent, with retries"),
        "ttft_s": (REAL, "seconds to the first token"),
        "thinking_s": (REAL, "seconds of thinking"),
        "setup_s": (REAL, "seconds before that, which no other column counts: imports, certificates, loading a model"),
        "started": (TIME, ""),
        "error_type": (TEXT, "the class of the error, or `interrupted`"),
        "error_message": (TEXT, ""),
        "error_code": (TEXT, "the vendor's own code"),
        "http_status": (COUNT, ""),
        "attempt": (COUNT, "the number of the attempt that counted, from 1"),
        "retries": (COUNT, "how often it was sent again"),
        "retry_wait_s": (REAL, "seconds of waiting before that"),
        "thinking_level": (TEXT, "`thinking` as it was in effect"),
        "tool_choice": (TEXT, "as it was in effect"),
        "params": (TEXT, "the options that were sent, as JSON"),
        "refused": (TEXT, "options, tools, schemas that the provider refused, with their other names or null, as JSON"),
        "speaker": (TEXT, "the member of a `Team` that asked"),
        "reminder": (TEXT, "what was sent last and not kept: a plan, notes"),
        "stream": (FLAG, "the answer was streamed"),
        "n_messages_in": (COUNT, "messages in the request"),
        "messages_in": (
            TEXT,
            "which they are, as JSON: what it adds to which earlier call; `trace.request(call_id)` has them",
        ),
        "quoted": (FLAG, "the answer quotes a tool's result (embedded model)"),
        "no_tool": (FLAG, "tools were on offer, and it answered from memory (embedded model)"),
        "cache_hit": (FLAG, "tokens came from the vendor's cache"),
        "replayed": (FLAG, "from a recording"),
        "usage_estimated": (FLAG, "a token count is an estimate, for example because an attempt broke off"),
        "usage_raw": (TEXT, "the vendor's own counts, as JSON"),
        "finish_reason_raw": (TEXT, "the vendor's own word"),
        "response_model": (TEXT, "the model that the vendor says answered"),
        "base_url_host": (TEXT, "the host that was asked"),
        "response_id": (TEXT, "the vendor's id of the answer"),
        "system_hash": (TEXT, "the system prompt, in `prompts`"),
        "tools_hash": (TEXT, "the definitions of the tools, in `prompts`"),
        "span_id": (TEXT, "the span `chat` of OpenTelemetry, in hex; `NA` where none was sampled"),
        "parent_span_id": (TEXT, "the span `invoke_agent`"),
        "call_id": (TEXT, ""),
    },
    # one row per message that entered the conversation
    "messages": {
        "role": (_ROLE, ""),
        "text": (TEXT, ""),
        "n_blocks": (COUNT, "its blocks"),
        "tokens_est": (COUNT, "about how many tokens it has"),
        "pinned": (FLAG, "kept when the history is shortened"),
        "trimmed": (FLAG, "left out of later requests"),
        "turn": (COUNT, "the `step` of the call that made it"),
        "index": (COUNT, "its number in the table"),
        "data": (TEXT, "what it holds besides its text, as JSON"),
        "message_id": (TEXT, ""),
        "parent_id": (TEXT, "the message before it"),
        "branch": (TEXT, ""),
        "call_id": (TEXT, "the call that made it"),
    },
    # one row per block of a message
    "blocks": {
        "type": (_BLOCK, ""),
        "name": (TEXT, "of the tool, or of the document"),
        "text": (TEXT, ""),
        "chars": (COUNT, "its length"),
        "signature": (FLAG, "the vendor signed or encrypted it"),
        "media_type": (TEXT, "of an image or document"),
        "index": (COUNT, "its place in the message"),
        "sha256": (TEXT, "of an image's or document's bytes"),
        "provider_data": (TEXT, "what else the vendor sent for it, as JSON"),
        "block_id": (TEXT, ""),
        "message_id": (TEXT, ""),
        "call_id": (TEXT, ""),
        "tool_call_id": (TEXT, ""),
    },
    # one row per tool call
    "tool_calls": {
        "name": (TEXT, "the tool"),
        "args": (JSON, "the arguments, as the model sent them or a person edited them; see `args_repaired`"),
        "result_text": (TEXT, "what the model read"),
        "is_error": (FLAG, ""),
        "duration_s": (REAL, "seconds; unknown if a vendor told of its own tool's call only with the result"),
        "approval": (_APPROVAL, "`allowed`: earlier in the session"),
        "approval_wait_s": (REAL, "seconds that the answer took"),
        "error_type": (TEXT, ""),
        "error_message": (TEXT, ""),
        "outputs": (TEXT, "what it printed and displayed, as JSON"),
        "args_valid": (FLAG, "the arguments fitted"),
        "validation_error": (TEXT, "what the model was told about them"),
        "validation_kind": (TEXT, "`missing`, `unexpected`, `type`, `value` or `json`"),
        "validation_field": (TEXT, "where, such as `filters[0].name`"),
        "repaired": (FLAG, "the arguments were repaired"),
        "args_sent": (JSON, "the arguments as the model sent them"),
        "args_repaired": (JSON, "after the repair: what it ran with, if they needed one"),
        "args_raw": (TEXT, "what the model sent, if it was no JSON object"),
        "result_type": (TEXT, "the type of what the function returned"),
        "result_repr": (TEXT, "its `repr`, shortened"),
        "truncated": (FLAG, "the model read only a part"),
        "result_chars": (COUNT, "the length of the whole result"),
        "started": (TIME, ""),
        "ended": (TIME, ""),
        "step": (COUNT, "the step of its call"),
        "index": (COUNT, "its place in the answer"),
        "source": (TEXT, "the skill, MCP server or vendor that the tool comes from"),
        "python": (TEXT, "equivalent Python code, if the tool's docstring has `In Python:`"),
        "function_version": (TEXT, "a hash of the function's source"),
        "cell_id_of_definition": (TEXT, "the cell that defined it"),
        "traceback": (TEXT, "of what the function raised"),
        "tool_call_id": (TEXT, ""),
        "wire_id": (TEXT, "the vendor's id"),
        "call_id": (TEXT, ""),
        "parallel_group": (TEXT, "calls with the same value ran side by side"),
    },
    # one row per change of a notebook's cell, and per run of one, by a tool
    "cells": {
        "cell": (TEXT, "the id of the cell that was changed or run"),
        "kind": (_CHANGE, "`add`, `edit`, `move`, `delete` or `run`"),
        "before": (TEXT, "its source before; `NA` if it was added"),
        "after": (TEXT, "its source after; `NA` if it was deleted"),
        "outputs_hash": (TEXT, "a hash of its outputs after; `NA` if it has none"),
        "call_id": (TEXT, ""),
        "tool_call_id": (TEXT, ""),
    },
    # one row per source of a part of an answer, by a tool that the vendor ran: characters `start` to `end` of its text
    "citations": {
        "text": (TEXT, "the part of the answer"),
        "title": (TEXT, "of the source"),
        "url": (TEXT, "its address"),
        "cited_text": (TEXT, "what it says"),
        "start": (COUNT, "where the part begins in the answer, in characters"),
        "end": (COUNT, "where it ends"),
        "index": (COUNT, ""),
        "message_id": (TEXT, ""),
        "call_id": (TEXT, ""),
    },
    # one row per stretch of thinking
    "thinking": {
        "text": (TEXT, ""),
        "chars": (COUNT, ""),
        "kind": (_KIND, "`omitted`: by the vendor"),
        "reasoning_tokens": (COUNT, "of all thinking of the call, in its first row"),
        "index": (COUNT, ""),
        "call_id": (TEXT, ""),
    },
    # one row per event, except the pieces of a stream
    "events": {
        "type": (TEXT, ""),
        "name": (TEXT, "the tool"),
        "content": (TEXT, ""),
        "data": (TEXT, "the event's `metadata`, as JSON"),
        "event_id": (COUNT, "its number"),
        "call_id": (TEXT, ""),
        "tool_call_id": (TEXT, ""),
    },
    # one row per HTTP exchange while `record_http` is on; headers are JSON objects, bodies the text that was sent
    "http": {
        "method": (TEXT, ""),
        "url": (TEXT, ""),
        "status": (COUNT, ""),
        "attempt": (COUNT, ""),
        "error_type": (TEXT, "the error that broke the connection"),
        "error_message": (TEXT, ""),
        "duration_s": (REAL, "seconds to the last byte, or to the failure"),
        "ttfb_s": (REAL, "seconds to the headers of the response"),
        "started": (TIME, ""),
        "request_bytes": (COUNT, ""),
        "response_bytes": (COUNT, ""),
        "request_headers": (TEXT, "JSON"),
        "request_body": (TEXT, "as sent"),
        "response_headers": (TEXT, "JSON"),
        "response_body": (TEXT, "as received"),
        "http_version": (TEXT, ""),
        "complete": (FLAG, "the response was read to its end"),
        "secrets": (TEXT, "the names that replace secrets, as JSON"),
        "request_id": (TEXT, "the vendor's id"),
        "call_id": (TEXT, ""),
    },
    # one row per text that requests share: system prompts, definitions of tools
    "prompts": {
        "kind": (TEXT, "`system` or `tools`"),
        "text": (TEXT, "the system prompt, or the definitions as JSON"),
        "chars": (COUNT, ""),
        "hash": (TEXT, "its SHA-256, as in `calls.system_hash` and `calls.tools_hash`"),
    },
    # one row per judgement of a run, a call or a tool call, by a person or a program
    "scores": {
        "name": (TEXT, "what is judged, such as `good`"),
        "value": (REAL, ""),
        "comment": (TEXT, ""),
        "by": (TEXT, "who judges"),
        "call_id": (TEXT, ""),
        "tool_call_id": (TEXT, ""),
    },
    # one row per session; packages is a JSON object
    "environment": {
        "git_commit": (TEXT, "of the working directory"),
        "git_dirty": (FLAG, "it had uncommitted changes"),
        "python": (TEXT, "its version"),
        "packages": (TEXT, "the imported packages with their versions, as JSON"),
        "kernel": (TEXT, "such as `ipykernel 7.1.0`"),
        "host": (TEXT, "`jupyter`, `vscode`, `colab` or `terminal`"),
        "platform": (TEXT, "the operating system"),
    },
    # `calls` summed by run, vendor, model and day
    "usage": {
        "provider": (TEXT, ""),
        "model": (TEXT, ""),
        "day": (TIME, ""),
        "n_calls": (COUNT, ""),
        **_USAGE,
        "cost_usd": (REAL, "`NA` if one of them is not known; where `replayed`, dollars of the recording, not paid"),
        "replayed": (FLAG, ""),
    },
}
#: The dtype of each column.
COLUMNS: dict[str, dict[str, Dtype]] = {
    table: {name: dtype for name, (dtype, _) in (columns | SHARED).items()} for table, columns in DESCRIBED.items()
}

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
    """A table of a trace: it displays the columns worth reading, and the control characters in what a model said."""

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
