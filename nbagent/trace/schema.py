"""The tables of a trace and their SQLite format. Columns are declared only here."""

from __future__ import annotations

from typing import get_args

from nbagent.core.results import Status
from nbagent.store.sqlite_file import SQLiteFormat

#: The kind of a column, or its possible words. Times are Unix seconds, flags are 0 or 1, and unknown values are NULL.
Kind = str | tuple[str, ...]
TEXT, JSON, COUNT, REAL, FLAG, TIME = "text", "json", "count", "real", "flag", "time"

#: The columns with token counts.
USAGE = ("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens", "total_tokens")

_STATUS = ("running", *get_args(Status))
_ROLE = ("system", "user", "assistant", "tool")
_BLOCK = ("text", "thinking", "redacted", "tool_call", "tool_result", "image", "document", "refusal", "compaction")
_APPROVAL = ("auto", "approved", "edited", "allowed", "denied")
_CHANGE = ("add", "edit", "move", "delete", "run")
_KIND = ("visible", "omitted", "redacted")

#: The kind and description of each column. `make reference` writes them into `docs/reference/trace.md`.
Column = tuple[Kind, str]
_USAGE: dict[str, Column] = {
    "input_tokens": (COUNT, "tokens sent, including cached ones"),
    "cache_read_tokens": (COUNT, "input tokens read from the provider's cache"),
    "cache_write_tokens": (COUNT, "input tokens written to the provider's cache"),
    "output_tokens": (COUNT, "tokens received, including reasoning"),
    "reasoning_tokens": (COUNT, "output tokens of reasoning"),
    "total_tokens": (COUNT, "input and output tokens"),
}
#: At the end of every table, after its other ids. `cell_id` is NA if no cell sent the prompt, or if runs have
#: no number (Voila).
SHARED: dict[str, Column] = {
    "run_id": (TEXT, "the run: a prompt and everything that it led to"),
    "session_id": (TEXT, "the trace that recorded the row"),
    "cell_id": (
        TEXT,
        "the front end's id of the prompt's cell, or `In[3]` without such an id (nbclient, papermill, a terminal)",
    ),
    "ts": (TIME, "when the row was created"),
}

#: The most useful columns come first, then technical ones, then ids.
DESCRIBED: dict[str, dict[str, Column]] = {
    # one row per run; `cost_usd` was paid now, `replayed_cost_usd` when the replayed answers were recorded
    "runs": {
        "prompt": (TEXT, "the prompt"),
        "output": (TEXT, "the answer, or its text so far"),
        "status": (_STATUS, ""),
        "n_calls": (COUNT, "requests to the model"),
        "n_tool_calls": (COUNT, "tool calls"),
        **_USAGE,
        "cost_usd": (REAL, "dollars paid; `NA` if a price is unknown"),
        "duration_s": (REAL, "seconds"),
        "started": (TIME, ""),
        "ended": (TIME, ""),
        "agent": (TEXT, "the agent's variable or name"),
        "source": (
            TEXT,
            (
                "where the prompt came from: `magic` (a cell with `%%agent`), `panel`, `python`, `map`, `extract`, "
                "`summary`, `agent` (another agent's tool), `http`, `acp`, or an MCP client"
            ),
        ),
        "execution_count": (COUNT, "the execution number of the prompt's cell"),
        "status_reason": (TEXT, "the reason for `status`, including the provider's own word for it"),
        "error_type": (TEXT, "the class of the error"),
        "error_message": (TEXT, "the text of the error"),
        "tags": (TEXT, "your labels, as JSON"),
        "user": (TEXT, "your label"),
        "session": (TEXT, "your label"),
        "metadata": (TEXT, "your labels, as JSON"),
        "output_type": (TEXT, "the type requested with `output=`"),
        "replayed": (FLAG, "all answers came from a recording"),
        "replayed_cost_usd": (REAL, "what replayed answers cost when they were recorded"),
        "cost_known": (FLAG, "the prices of all paid answers are known"),
        "parent_run_id": (TEXT, "the run whose tool started this one"),
        "parent_tool_call_id": (TEXT, "the tool call that started this run"),
        "branch": (TEXT, "the branch of the conversation: the `run_id` of its first run"),
    },
    # one row per model request
    "calls": {
        "provider": (TEXT, "the provider"),
        "model": (TEXT, "the requested model"),
        "step": (COUNT, "the number of the request in the run, from 1"),
        "finish_reason": (
            TEXT,
            "why the answer ended: `stop`, `tool_calls`, `length`, `content_filter`, `refusal`, `pause` or `NA`",
        ),
        **_USAGE,
        "cost_usd": (
            REAL,
            "dollars, including interrupted attempts; for a replayed answer, the recorded cost",
        ),
        "duration_s": (REAL, "seconds from when the request was ready to be sent, including retries"),
        "ttft_s": (REAL, "seconds to the first token"),
        "thinking_s": (REAL, "seconds of thinking"),
        "setup_s": (REAL, "seconds of setup before the request (imports, certificates, loading), not in other columns"),
        "started": (TIME, ""),
        "error_type": (TEXT, "the class of the error, or `interrupted`"),
        "error_message": (TEXT, ""),
        "error_code": (TEXT, "the provider's own code"),
        "http_status": (COUNT, ""),
        "attempt": (COUNT, "the number of the attempt that counted, from 1"),
        "retries": (COUNT, "how many times the request was retried"),
        "retry_wait_s": (REAL, "seconds waited before retries"),
        "thinking_level": (TEXT, "the effective value of `thinking`"),
        "tool_choice": (TEXT, "the effective value of `tool_choice`"),
        "params": (TEXT, "the options that were sent, as JSON"),
        "refused": (
            TEXT,
            "options, tools and schemas that the provider refused, each with its replacement or null, as JSON",
        ),
        "speaker": (TEXT, "the member of a `Team` that sent the request"),
        "reminder": (TEXT, "text at the end of the request that the history does not keep, such as a plan or notes"),
        "stream": (FLAG, "the answer was streamed"),
        "n_messages_in": (COUNT, "messages in the request"),
        "messages_in": (
            TEXT,
            "how many messages of an earlier call are kept and which are added, as JSON; see `trace.request(call_id)`",
        ),
        "quoted": (FLAG, "the answer quotes a tool's result (embedded model)"),
        "no_tool": (FLAG, "tools were offered, but the model answered from memory (embedded model)"),
        "cache_hit": (FLAG, "some input tokens came from the provider's cache"),
        "replayed": (FLAG, "from a recording"),
        "usage_estimated": (FLAG, "token counts are estimated, for example after an interrupted attempt"),
        "usage_raw": (TEXT, "the provider's own token counts, as JSON"),
        "finish_reason_raw": (TEXT, "the provider's own finish reason"),
        "response_model": (TEXT, "the model that answered, according to the provider"),
        "base_url_host": (TEXT, "the host that received the request"),
        "response_id": (TEXT, "the provider's id of the answer"),
        "system_hash": (TEXT, "the system prompt, in `prompts`"),
        "tools_hash": (TEXT, "the definitions of the tools, in `prompts`"),
        "span_id": (TEXT, "the OpenTelemetry span `chat`, in hex; `NA` if it was not sampled"),
        "parent_span_id": (TEXT, "the span `invoke_agent`"),
        "call_id": (TEXT, ""),
    },
    # one row per message that entered the conversation
    "messages": {
        "role": (_ROLE, ""),
        "text": (TEXT, ""),
        "n_blocks": (COUNT, "number of blocks"),
        "tokens_est": (COUNT, "approximate number of tokens"),
        "pinned": (FLAG, "kept when the history is trimmed"),
        "trimmed": (FLAG, "omitted from later requests"),
        "turn": (COUNT, "the `step` of the call that produced it"),
        "index": (COUNT, "its position in the table"),
        "data": (TEXT, "everything except its text, as JSON"),
        "message_id": (TEXT, ""),
        "parent_id": (TEXT, "the message before it"),
        "branch": (TEXT, ""),
        "call_id": (TEXT, "the call that produced it"),
    },
    # one row per block of a message
    "blocks": {
        "type": (_BLOCK, ""),
        "name": (TEXT, "the tool or document"),
        "text": (TEXT, ""),
        "chars": (COUNT, "the length of the text"),
        "signature": (FLAG, "the provider signed or encrypted the block"),
        "media_type": (TEXT, "the media type of an image or document"),
        "index": (COUNT, "its position in the message"),
        "sha256": (TEXT, "the hash of an image or document"),
        "provider_data": (TEXT, "other data that the provider sent, as JSON"),
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
        "duration_s": (REAL, "seconds; unknown if a provider reports its own tool's call only with the result"),
        "approval": (_APPROVAL, "`allowed`: allowed earlier in the session"),
        "approval_wait_s": (REAL, "seconds until the decision"),
        "error_type": (TEXT, ""),
        "error_message": (TEXT, ""),
        "outputs": (TEXT, "what the tool printed and displayed, as JSON"),
        "args_valid": (FLAG, "the arguments were valid"),
        "validation_error": (TEXT, "the error that the model read"),
        "validation_kind": (TEXT, "`missing`, `unexpected`, `type`, `value` or `json`"),
        "validation_field": (TEXT, "the invalid field, such as `filters[0].name`"),
        "repaired": (FLAG, "the arguments were repaired"),
        "args_sent": (JSON, "the arguments as the model sent them"),
        "args_repaired": (JSON, "the repaired arguments that the tool was called with; `NA` if they needed no repair"),
        "args_raw": (TEXT, "the text that the model sent, if it was not a JSON object"),
        "result_type": (TEXT, "the type of the returned value"),
        "result_repr": (TEXT, "the `repr` of the returned value, shortened"),
        "truncated": (FLAG, "the model read only part of the result"),
        "result_chars": (COUNT, "the length of the whole result"),
        "started": (TIME, ""),
        "ended": (TIME, ""),
        "step": (COUNT, "the `step` of the model request that it came from"),
        "index": (COUNT, "its position in the answer"),
        "source": (TEXT, "the skill, MCP server or provider that provides the tool"),
        "python": (TEXT, "equivalent Python code, if the tool's docstring has `In Python:`"),
        "function_version": (TEXT, "a hash of the function's source"),
        "cell_id_of_definition": (TEXT, "the cell that defined the function"),
        "traceback": (TEXT, "the traceback of the function's exception"),
        "tool_call_id": (TEXT, ""),
        "wire_id": (TEXT, "the provider's id"),
        "call_id": (TEXT, ""),
        "parallel_group": (TEXT, "calls with the same value ran in parallel"),
    },
    # one row each time a tool changed or ran a notebook cell
    "cells": {
        "cell": (TEXT, "the id of that cell"),
        "kind": (_CHANGE, "what the tool did"),
        "before": (TEXT, "its source before the change; `NA` if the cell was added"),
        "after": (TEXT, "its source after the change; `NA` if the cell was deleted"),
        "outputs_hash": (TEXT, "a hash of its outputs after the change; `NA` if there are none"),
        "call_id": (TEXT, ""),
        "tool_call_id": (TEXT, ""),
    },
    # one row per source that a provider's tool found for a passage of an answer, characters `start` to `end`
    "citations": {
        "text": (TEXT, "the passage of the answer"),
        "title": (TEXT, "the title of the source"),
        "url": (TEXT, "the address of the source"),
        "cited_text": (TEXT, "the cited text"),
        "start": (COUNT, "where the passage starts in the answer, in characters"),
        "end": (COUNT, "where the passage ends"),
        "index": (COUNT, ""),
        "message_id": (TEXT, ""),
        "call_id": (TEXT, ""),
    },
    # one row per block of thinking
    "thinking": {
        "text": (TEXT, ""),
        "chars": (COUNT, ""),
        "kind": (_KIND, "`omitted`: not sent by the provider"),
        "reasoning_tokens": (COUNT, "the call's total, in the call's first row"),
        "index": (COUNT, ""),
        "call_id": (TEXT, ""),
    },
    # one row per event, except streamed pieces
    "events": {
        "type": (TEXT, ""),
        "name": (TEXT, "the tool"),
        "content": (TEXT, ""),
        "data": (TEXT, "the event's `metadata`, as JSON"),
        "event_id": (COUNT, "the number of the event"),
        "call_id": (TEXT, ""),
        "tool_call_id": (TEXT, ""),
    },
    # one row per HTTP exchange while `record_http` is on; headers are JSON objects, bodies are the text as sent
    "http": {
        "method": (TEXT, ""),
        "url": (TEXT, ""),
        "status": (COUNT, ""),
        "attempt": (COUNT, ""),
        "error_type": (TEXT, "the error that ended the connection"),
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
        "secrets": (TEXT, "the variable names that replaced secrets, as JSON"),
        "request_id": (TEXT, "the provider's id"),
        "call_id": (TEXT, ""),
    },
    # one row per text that requests share: system prompts, tool definitions
    "prompts": {
        "kind": (TEXT, "`system` or `tools`"),
        "text": (TEXT, "the system prompt, or the tool definitions as JSON"),
        "chars": (COUNT, ""),
        "hash": (TEXT, "the SHA-256 of the text, as in `calls.system_hash` and `calls.tools_hash`"),
    },
    # one row per score of a run, call or tool call, by a person or a program
    "scores": {
        "name": (TEXT, "what is rated, such as `good`"),
        "value": (REAL, ""),
        "comment": (TEXT, ""),
        "by": (TEXT, "the author"),
        "call_id": (TEXT, ""),
        "tool_call_id": (TEXT, ""),
    },
    # one row per session; packages is a JSON object
    "environment": {
        "git_commit": (TEXT, "the commit of the working directory"),
        "git_dirty": (FLAG, "the working directory had uncommitted changes"),
        "python": (TEXT, "the version of Python"),
        "packages": (TEXT, "imported packages and their versions, as JSON"),
        "kernel": (TEXT, "such as `ipykernel 7.1.0`"),
        "host": (TEXT, "`jupyter`, `vscode`, `colab` or `terminal`"),
        "platform": (TEXT, "the operating system"),
    },
    # `calls` summed by run, provider, model and day
    "usage": {
        "provider": (TEXT, ""),
        "model": (TEXT, ""),
        "day": (TIME, ""),
        "n_calls": (COUNT, ""),
        **_USAGE,
        "cost_usd": (
            REAL,
            "dollars; `NA` if any cost is unknown; for replayed answers, the recorded cost, which was not paid",
        ),
        "replayed": (FLAG, ""),
    },
}
#: The kind of each column.
KINDS: dict[str, dict[str, Kind]] = {
    table: {name: kind for name, (kind, _) in (columns | SHARED).items()} for table, columns in DESCRIBED.items()
}
#: The tables that are recorded; `usage` is computed from `calls`.
TABLES = tuple(name for name in DESCRIBED if name != "usage")
#: The column with the number of a row, from 0. DataFrames have it only if `KINDS` declares it.
NUMBERS = {table: {"events": "event_id", "messages": "index"}.get(table, "n") for table in TABLES}
#: The columns by which a trace finds rows. Files have no indexes: they would double the time to write a turn.
_FOUND_BY = {"calls": "call_id", "tool_calls": "tool_call_id", "messages": "message_id"}
INDEXES = "".join(
    f'CREATE INDEX "{table}_{name}" ON "{table}" ("{name}");'
    for table, name in [*((table, "run_id") for table in TABLES), *_FOUND_BY.items()]
)
_SQL = {COUNT: "INTEGER", FLAG: "INTEGER", REAL: "REAL", TIME: "REAL"}


def column_sql(table: str, name: str) -> str:
    """The SQL declaration of a column."""
    return f'"{name}" {_SQL.get(str(KINDS[table][name]), "TEXT")}'


def _table_sql(table: str) -> str:
    columns = ", ".join(column_sql(table, name) for name in KINDS[table] if name != NUMBERS[table])
    return f'CREATE TABLE "{table}" ("{NUMBERS[table]}" INTEGER PRIMARY KEY, {columns});'


#: `writers` numbers the traces that are streamed to a file.
FORMAT = SQLiteFormat(
    "traces",
    "nbag",
    version=2,
    tables="CREATE TABLE writers (number INTEGER PRIMARY KEY);" + "".join(map(_table_sql, TABLES)),
    journal="DELETE",
)
