"""The tables of a trace: their columns, declared here and only here, and the SQLite file that holds them."""

from __future__ import annotations

from typing import get_args

from nbagent.core.results import Status
from nbagent.store.sqlite_file import SQLiteFormat

#: The kind of a column, or the few words that it may hold. Times are Unix seconds, flags 0 and 1; unknown values are
#: NULL.
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
    "input_tokens": (COUNT, "sent, those from the cache included"),
    "cache_read_tokens": (COUNT, "of these, read from the provider's cache"),
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
        "status_reason": (TEXT, "why it ended so, with the provider's own word"),
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
        "provider": (TEXT, "the provider"),
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
        "error_code": (TEXT, "the provider's own code"),
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
        "cache_hit": (FLAG, "tokens came from the provider's cache"),
        "replayed": (FLAG, "from a recording"),
        "usage_estimated": (FLAG, "a token count is an estimate, for example because an attempt broke off"),
        "usage_raw": (TEXT, "the provider's own counts, as JSON"),
        "finish_reason_raw": (TEXT, "the provider's own word"),
        "response_model": (TEXT, "the model that the provider says answered"),
        "base_url_host": (TEXT, "the host that was asked"),
        "response_id": (TEXT, "the provider's id of the answer"),
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
        "signature": (FLAG, "the provider signed or encrypted it"),
        "media_type": (TEXT, "of an image or document"),
        "index": (COUNT, "its place in the message"),
        "sha256": (TEXT, "of an image's or document's bytes"),
        "provider_data": (TEXT, "what else the provider sent for it, as JSON"),
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
        "duration_s": (REAL, "seconds; unknown if a provider told of its own tool's call only with the result"),
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
        "source": (TEXT, "the skill, MCP server or provider that the tool comes from"),
        "python": (TEXT, "equivalent Python code, if the tool's docstring has `In Python:`"),
        "function_version": (TEXT, "a hash of the function's source"),
        "cell_id_of_definition": (TEXT, "the cell that defined it"),
        "traceback": (TEXT, "of what the function raised"),
        "tool_call_id": (TEXT, ""),
        "wire_id": (TEXT, "the provider's id"),
        "call_id": (TEXT, ""),
        "parallel_group": (TEXT, "calls with the same value ran side by side"),
    },
    # one row per change of a notebook's cell, and per run of one, by a tool
    "cells": {
        "cell": (TEXT, "the id of the cell that was changed or run"),
        "kind": (_CHANGE, "what the tool did"),
        "before": (TEXT, "its source before; `NA` if it was added"),
        "after": (TEXT, "its source after; `NA` if it was deleted"),
        "outputs_hash": (TEXT, "a hash of its outputs after; `NA` if it has none"),
        "call_id": (TEXT, ""),
        "tool_call_id": (TEXT, ""),
    },
    # one row per source of a part of an answer, by a tool that the provider ran: characters `start` to `end` of its
    # text
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
        "kind": (_KIND, "`omitted`: by the provider"),
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
        "request_id": (TEXT, "the provider's id"),
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
    # `calls` summed by run, provider, model and day
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
#: The kind of each column.
KINDS: dict[str, dict[str, Kind]] = {
    table: {name: kind for name, (kind, _) in (columns | SHARED).items()} for table, columns in DESCRIBED.items()
}
#: The tables that are recorded; `usage` is computed from `calls`.
TABLES = tuple(name for name in DESCRIBED if name != "usage")
#: The column with the number of a row, from 0 on. Frames have those that `KINDS` names.
NUMBERS = {table: {"events": "event_id", "messages": "index"}.get(table, "n") for table in TABLES}
#: The columns by which a trace finds rows. Files have no indexes: each turn would take twice as long to write.
_FOUND_BY = {"calls": "call_id", "tool_calls": "tool_call_id", "messages": "message_id"}
INDEXES = "".join(
    f'CREATE INDEX "{table}_{name}" ON "{table}" ("{name}");'
    for table, name in [*((table, "run_id") for table in TABLES), *_FOUND_BY.items()]
)
_SQL = {COUNT: "INTEGER", FLAG: "INTEGER", REAL: "REAL", TIME: "REAL"}


def column_sql(table: str, name: str) -> str:
    """The declaration of a column."""
    return f'"{name}" {_SQL.get(str(KINDS[table][name]), "TEXT")}'


def _table_sql(table: str) -> str:
    columns = ", ".join(column_sql(table, name) for name in KINDS[table] if name != NUMBERS[table])
    return f'CREATE TABLE "{table}" ("{NUMBERS[table]}" INTEGER PRIMARY KEY, {columns});'


#: `writers` counts the traces that were streamed to a file.
FORMAT = SQLiteFormat(
    "traces",
    "nbag",
    version=2,
    tables="CREATE TABLE writers (number INTEGER PRIMARY KEY);" + "".join(map(_table_sql, TABLES)),
    journal="DELETE",
)
