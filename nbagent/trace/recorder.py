"""`Recorder` turns the events of runs into rows. This takes microseconds per event and doesn't need pandas."""

from __future__ import annotations

import json
import logging
import os
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from operator import attrgetter
from pathlib import Path
from typing import Any
from weakref import WeakSet, WeakValueDictionary

from nbagent.core import events as kinds
from nbagent.core.content.images import content_as_text
from nbagent.core.events import Event
from nbagent.core.history.history import estimate_tokens
from nbagent.core.http_exchange import Exchange
from nbagent.core.messages import ORIGINS, LLMMessage, Usage, new_id
from nbagent.errors import ProviderError
from nbagent.trace.blocks import blocks_of, thinking_of
from nbagent.trace.open_run import OpenRun, Sent
from nbagent.trace.outcomes import outcome_columns
from nbagent.trace.requests import digest, message_data, messages_in, shared_start
from nbagent.trace.results import Results, size_of
from nbagent.trace.rows import Row, as_json
from nbagent.trace.schema import NUMBERS, TABLES, USAGE
from nbagent.trace.store import COPIED, TraceFile, TraceStore, private_store

log = logging.getLogger("nbagent")

#: The default memory limit of a trace, and the approximate size of an event besides its text, in bytes.
MAX_BYTES, EVENT_BYTES = 100_000_000, 2_000
#: How many conversations' last requests are kept, and how many system prompts and sets of tools are remembered.
REMEMBERED = 16

#: Reads the columns with token counts from a `Usage`.
_usage_counts: Callable[[Usage], tuple[int, ...]] = attrgetter(*USAGE)
_NO_ORIGIN: Mapping[str, Any] = {}


class Recorder:
    """Turns events into table rows. A row may be completed later, but is never removed.

    Several runs may record at the same time, from several threads. Hold `lock` to read several tables consistently.
    """

    def __init__(self, keep_results: bool = True, max_bytes: int | None = MAX_BYTES) -> None:
        self.keep_results = keep_results
        self.max_bytes = max_bytes
        self.session_id = new_id("session")
        #: The number of rows of each table.
        self.counts = dict.fromkeys(TABLES, 0)
        self.results = Results()
        #: The `message_id`s of messages that later requests omit.
        self.trimmed: set[str] = set()
        self.lock = threading.RLock()
        #: The runs in progress, by `run_id`.
        self.open_runs: dict[str, OpenRun] = {}
        #: The rows not yet written, and their approximate size in bytes.
        self._new: dict[str, list[Row]] = {name: [] for name in TABLES}
        self._new_trimmed: list[str] = []
        self.bytes = 0
        #: The rows that were written before they were complete, to be written again.
        self._open: dict[str, list[Row]] = {}
        self._store: TraceStore | None = None
        #: The files to which rows are also written, and whether this happens after each turn.
        self._files: dict[TraceFile, bool] = {}
        self._message_ids = new_id("msg")
        #: The keys in `LLMMessage.encoded` for the `message_id` of the message's row and of the row before it.
        self._row_key, self._parent_key = f"row in {self.session_id}", f"parent in {self.session_id}"
        #: The recorders of forks.
        self.forks: WeakSet[Recorder] = WeakSet()
        #: For each run, the runs that its tools started: their `run_id`, and their recorder if it is not this one.
        self.started: dict[str, list[tuple[str, Recorder | None]]] = {}
        #: For each system prompt, its hash and the `message_id` of its row; and sets of tools with their hashes.
        self._systems: dict[str, tuple[str, str]] = {}
        self._offered: deque[tuple[Any, str]] = deque(maxlen=REMEMBERED)
        #: The last request of each conversation.
        self._sent: dict[str | None, Sent] = {}
        _recorders.add(self)

    def restart_after_fork(self) -> None:
        """Start an empty session in a forked process, since the databases still belong to the parent process."""
        _of_parent.append(vars(self).copy())  # closing them would wait for locks of threads that are gone
        vars(self).update(vars(Recorder(self.keep_results, self.max_bytes)), forks=self.forks)

    @property
    def store(self) -> TraceStore:
        """The database that `flush` writes the rows to."""
        if self._store is None:
            self._store = private_store(None if self.max_bytes is None else self.max_bytes // 2)
        return self._store

    def record(self, event: Event) -> None:
        """Record an event."""
        kind, meta = event.type, event.metadata
        run = self.open_runs.get(meta["run_id"])
        if kind in _DELTAS:
            if run is not None and run.call and (kind == "thinking" or run.waiting or run.thinking):
                run.add_delta(event)
            return
        with self.lock:
            if (handler := _HANDLERS.get(kind)) is not None and (run is not None or kind in _OUTSIDE):
                handler(self, run, event)
            self._add_event(run or self.open_runs.get(meta["run_id"]), event)
            self.bytes += EVENT_BYTES + len(event.content)
            if kind in _TURN_ENDS:
                if kind != "turn_started":
                    self.open_runs.pop(meta["run_id"], None)
                    _recording.pop(meta["run_id"], None)
                if kind != "turn_started" or meta["step"] > 1:
                    self.end_turn()

    def set_span_ids(self, run_id: str, span_id: str, parent_span_id: str) -> None:
        """Record the OpenTelemetry span ids of a run's current call."""
        with self.lock:
            if (run := self.open_runs.get(run_id)) is not None and run.call:
                run.call.update(span_id=span_id, parent_span_id=parent_span_id)

    def add_score(self, row: Row) -> None:
        """Append a row to `scores`. It supersedes an earlier score with the same target, name and author."""
        with self.lock:
            self.add_rows("scores", [{**row, "session_id": self.session_id, "ts": time.time()}])
            self.end_turn()

    def add_environment(self, collect: Callable[[], Row]) -> None:
        """Append this session's environment to the table `environment`, unless it is already there."""
        with self.lock:
            if not self.rows("environment", "session_id = ?", self.session_id):
                self.add_rows("environment", [{**collect(), "session_id": self.session_id, "ts": time.time()}])

    def add_rows(self, table: str, rows: Iterable[Row]) -> None:
        """Append rows, and renumber them."""
        with self.lock:
            for row in rows:
                self._append(table, row)
                if row.get("trimmed"):
                    self.trimmed.add(row["message_id"])

    def load(self, path: Path) -> None:
        """Append the rows of a SQLite file. Raises sqlite3.Error."""
        with self.lock:
            store = self.flush()
            store.append_file(path)
            self.counts = {name: store.count(name) for name in TABLES}
            self.trimmed.update(message_id for (message_id,) in store.get(_TRIMMED))

    def attach(self, file: TraceFile, *, each_turn: bool) -> None:
        """Write the rows recorded so far to a file. With `each_turn`, new rows follow after each turn; otherwise only
        when `write_to` is called.

        Raises sqlite3.Error, OSError.
        """
        with self.lock:
            with file.rewriting(self.session_id):
                store = self.flush()
                for table, number in NUMBERS.items():
                    for start in range(0, self.counts[table], COPIED):
                        file.take({table: store.rows(table, f'"{number}" BETWEEN ? AND ?', start, start + COPIED - 1)})
                        file.write()
            self._files[file] = each_turn

    def detach(self, file: TraceFile) -> None:
        """Write the remaining rows and close the file."""
        with self.lock:
            try:
                if self._files.pop(file, None) is not None:
                    file.write()
            except (sqlite3.Error, OSError) as error:
                log.warning("the trace is no longer written to %s: %s", file.path, error)
            finally:
                file.close()

    def is_written_to(self, path: Path) -> bool:
        """Whether the rows are written to the file with this path."""
        return any(file.path == path for file in self._files)

    def write_to(self, file: TraceFile) -> None:
        """Write the rows that the file does not contain yet. Raises sqlite3.Error, OSError."""
        with self.lock:
            self.flush()
            file.write()

    def rows(self, table: str, where: str = "TRUE", *values: Any) -> list[Row]:
        """Return copies of a table's rows as dicts, oldest first: all rows, or those that match an SQL condition."""
        with self.lock:
            return self.flush().rows(table, where, *values)

    def recognise(self, messages: Iterable[LLMMessage]) -> None:
        """Match messages loaded from a file with their rows, so sending them does not record them again."""
        with self.lock:
            known = dict(self.flush().get("SELECT message_id, parent_id FROM messages"))
            for message in messages:
                if message.message_id in known:
                    message.encoded[self._row_key] = message.message_id
                    message.encoded[self._parent_key] = known[message.message_id]

    def end_turn(self) -> None:
        """Write new rows to the files. If the rows and results use too much memory, spill them to temporary files."""
        for file in [file for file, each_turn in self._files.items() if each_turn]:
            try:
                self.write_to(file)
            except (sqlite3.Error, OSError) as error:
                if getattr(error, "sqlite_errorname", "") != "SQLITE_BUSY":  # a full disk stops the file, not the run
                    self.detach(file)
        if self.max_bytes is not None and self.bytes + self.results.bytes > self.max_bytes // 2:
            try:
                self.flush()
                self.results.spill()
            except (sqlite3.Error, OSError) as error:
                log.warning("the trace stays in memory: its rows can't be written to a temporary file: %s", error)
            self.bytes = 0
            self._sent.clear()  # it keeps messages alive; the next requests are recorded in full

    def flush(self) -> TraceStore:
        """Write the rows to the store, including rows of runs in progress. Raises sqlite3.Error."""
        rows = {name: [*self._open.get(name, ()), *new] for name, new in self._new.items()}
        for event in self._new["events"]:
            if not isinstance(event["data"], str):
                event["data"] = as_json(_without_ids(event["data"]))
        for row in self._new["messages"]:
            if isinstance(message := row["data"], LLMMessage):
                row.update(tokens_est=estimate_tokens(message), data=message_data(message))
        self.store.write(rows, self._new_trimmed)
        for file in self._files:
            file.take(rows, self._new_trimmed)
        self._new, self._new_trimmed = {name: [] for name in TABLES}, []
        self.bytes = 0
        self._open = self.open_rows()
        return self.store

    def open_rows(self) -> dict[str, list[Row]]:
        """The rows that may still change, by table: the current turn of each open run."""
        runs = self.open_runs.values()
        return {
            "runs": [run.row for run in runs],
            "calls": [run.call for run in runs if run.call],
            "blocks": [block for run in runs for block in run.call_blocks],
            "tool_calls": [tool for run in runs for tool in run.tools.values()],
        }

    def _add_row(self, table: str, run: OpenRun | None, event: Event, row: Row) -> Row:
        """Append a row with the shared columns."""
        row["run_id"], row["session_id"], row["ts"] = event.metadata["run_id"], self.session_id, time.time()
        row["cell_id"] = run.row["cell_id"] if run is not None else None
        self._append(table, row)
        return row

    def _append(self, table: str, row: Row) -> None:
        row[NUMBERS[table]] = self.counts[table]
        self.counts[table] += 1
        self._new[table].append(row)

    def _add_event(self, run: OpenRun | None, event: Event) -> None:
        meta = event.metadata
        row: Row = {
            "type": event.type,
            "name": event.tool_name,
            "call_id": meta.get("call_id"),
            "tool_call_id": meta.get("tool_call_id"),
            "content": event.content,
            "data": as_json(_without_ids(meta)) if event.type in _NESTED else meta,
        }
        self._add_row("events", run, event, row)

    def _add_message(
        self, run: OpenRun, event: Event, message: LLMMessage, blocks: list[Row], origin: Mapping[str, Any] = _NO_ORIGIN
    ) -> list[Row]:
        """Add a row for the message, and return rows for its blocks. `origin` is its call or tool call."""
        number = self.counts["messages"]
        own = None if self._row_key in message.encoded else message.message_id
        message_id = message.encoded[self._row_key] = own or f"{self._message_ids}_{number}"
        message.encoded[self._parent_key] = run.last_message
        text = content_as_text(message.content) if message.role == "tool" else message.text
        row: Row = {
            "message_id": message_id,
            "parent_id": run.last_message,
            "branch": run.row["branch"],
            "turn": origin.get("step"),
            "role": message.role,
            "text": text,
            "n_blocks": len(blocks),
            "call_id": origin.get("call_id"),
            "pinned": message.pinned,
            "trimmed": False,
            "data": message,
        }
        self._add_row("messages", run, event, row)
        run.last_message = message_id
        self.bytes += len(text)
        if message.provider_extras is not None or not isinstance(message.content, str):
            self.bytes += size_of([message.provider_extras, message.content])
        shared = {key: row[key] for key in _MESSAGE_KEYS} | {"tool_call_id": origin.get("tool_call_id")}
        rows = [
            {**shared, "block_id": f"{message_id}_{index}", "index": index, **block}
            for index, block in enumerate(blocks)
        ]
        for row in rows:
            self._append("blocks", row)
        return rows

    def _row_of(
        self,
        run: OpenRun,
        event: Event,
        message: LLMMessage,
        origin: Mapping[str, Any] = _NO_ORIGIN,
        may_move: bool = False,
    ) -> str:
        """The `message_id` of a message's row, which is added if it is missing.

        With `may_move`, a message that now follows a different message, such as an edited one, has a new row. A message
        whose predecessor was only dropped keeps its row.
        """
        known, parent = message.encoded.get(self._row_key), message.encoded.get(self._parent_key)
        has_moved = may_move and parent != run.last_message and parent not in self.trimmed
        if known is None or has_moved:
            self._add_message(run, event, message, blocks_of(message), origin)
        else:
            run.last_message = known
        return str(message.encoded[self._row_key])

    def _add_unsent(self, run: OpenRun, event: kinds.Done | kinds.Error | kinds.Interrupted) -> None:
        """Add the messages that the run did not send: an unsent prompt, a partial answer, the last tool results."""
        missing = {message.tool_call_id: message for message in event.messages if message.role == "tool"}
        for message in (*run.asked, *(other for other in event.messages if other.role != "tool")):
            self._row_of(run, event, message)
        for tool_call_id, tool in run.tools.items():
            result = run.results.get(tool_call_id) or missing.get(tool["wire_id"])
            if result is not None:
                self._row_of(run, event, result, tool)

    def _request(self, run: OpenRun, event: kinds.TurnStarted) -> Row:
        """The columns of `calls` that describe the request. Adds rows for messages without one, in the order sent."""
        messages, after, known, first = event.messages, *run.request, 0
        before, run.last_message, system_hash, system_row = run.last_message, None, None, None
        if messages and messages[0].role == "system" and isinstance(messages[0].content, str):
            first, (system_hash, system_row) = 1, self._system(run, event, messages[0])
        del known[shared_start(messages[first:], known) :]
        kept, new = len(known), messages[first + len(known) :]
        run.last_message = known[-1].encoded[self._row_key] if known else system_row
        if before and new and not known and (new[0].is_summary or any(new[0] is prompt for prompt in run.asked)):
            run.last_message = before  # the messages in between were dropped
        tools = {tool["wire_id"]: tool for tool in run.tools.values()}
        added, may_move = [], bool(run.asked) and run.row["branch"] == event.metadata["run_id"]
        for place, message in enumerate(new, kept):
            origin = tools.get(message.tool_call_id, _NO_ORIGIN)
            added.append(self._row_of(run, event, message, origin, may_move=may_move and place > 0))
        known += new
        run.asked, run.request = (), (event.metadata["call_id"], known)
        return {
            "system_hash": system_hash,
            "tools_hash": self._tools_hash(run, event) if event.tools else None,
            "messages_in": messages_in(after, kept, added),
        }

    def _system(self, run: OpenRun, event: Event, message: LLMMessage) -> tuple[str, str]:
        """The hash of a system prompt and the `message_id` of its row in `messages`."""
        known = self._systems.get(message.text)
        if known is None:
            if len(self._systems) == REMEMBERED:
                self._systems.clear()
            found = self._add_prompt(run, event, "system", message.text)
            self._add_message(run, event, message, blocks_of(message))
            known = self._systems[message.text] = found, message.encoded[self._row_key]
        return known

    def _tools_hash(self, run: OpenRun, event: kinds.TurnStarted) -> str:
        """The hash of the offered tools."""
        for tools, found in self._offered:
            if tools == event.tools:  # fast: a tool's schema is the same object in each request
                return found
        found = self._add_prompt(run, event, "tools", as_json(event.tools))
        self._offered.append((event.tools, found))
        return found

    def _add_prompt(self, run: OpenRun, event: Event, kind: str, text: str) -> str:
        """Add a row to `prompts`, and return the hash of the text."""
        found = digest(text)
        self._add_row("prompts", run, event, {"hash": found, "kind": kind, "text": text, "chars": len(text)})
        self.bytes += len(text)
        return found

    def _add_thinking(self, run: OpenRun, event: Event, call: Row, rows: list[Row], tokens: int | None = None) -> None:
        """Add rows to `thinking`. The first row of a call has the tokens of all the call's thinking."""
        for row in rows:
            row.update(call_id=call["call_id"], reasoning_tokens=tokens if row["index"] == 0 else None)
            self._add_row("thinking", run, event, row)

    # -- `_on_<type>` handles events of that type ---------------------------------------------------------------------

    def _on_run_started(self, _run: OpenRun | None, event: kinds.RunStarted) -> None:
        meta = event.metadata
        row: Row = {key: meta.get(key) for key in _RUN_KEYS}
        row.update({name: as_json(meta[name]) for name in ("tags", "metadata") if name in meta})
        row.update(prompt=event.content, status="running", started=time.time())
        before = event.after.encoded.get(self._row_key) if event.after else None
        asked = [message for message in event.messages if message.role != "system"]
        run = OpenRun(row, before, asked, meta.get("conversation_id"))
        run.request = self._sent.pop(run.conversation, run.request)
        self.open_runs[meta["run_id"]] = run
        _recording[meta["run_id"]] = self
        if (parent := _recording.get(row["parent_run_id"] or "")) is not None:
            child = self if parent is not self else None
            parent.started.setdefault(row["parent_run_id"], []).append((meta["run_id"], child))
        self._add_row("runs", run, event, row)

    def _on_turn_started(self, run: OpenRun, event: kinds.TurnStarted) -> None:
        request = self._request(run, event)
        run.end_turn()
        row = {**event.metadata, **request}
        row.update(
            params=as_json(row.get("params")), ttft_s=None, thinking_s=None, attempt=1, retries=0, retry_wait_s=0.0
        )
        run.call = self._add_row("calls", run, event, row)
        row["started"] = row["ts"]
        if "refused" in row:
            row["refused"] = as_json(row["refused"])
        run.timing = event.timing
        run.send()

    def _on_retry(self, run: OpenRun, event: Event) -> None:
        """Restart the time to the first token, and mark calls of the provider's own tools as discarded.

        If another model is used, the call has failed. If the retry follows an empty answer, the call is complete.
        """
        if "duration_s" in run.call:
            return
        for tool in run.tools.values():
            tool.update(is_error=True, error_type="retry", error_message=event.content)
        call, wait = run.call, event.metadata.get("wait_s") or 0.0
        if "next" in event.metadata:
            call.update({name: event.metadata[key] for name, key in _FAILED.items()})
            run.end_call()
            return
        call.update(ttft_s=None, thinking_s=None, retries=call["retries"] + 1, attempt=call["attempt"] + 1)
        call["retry_wait_s"] += wait
        _set_refused(call, event)
        run.send(wait)

    def _on_http(self, run: OpenRun | None, event: kinds.Http) -> None:
        exchange = event.exchange
        if exchange is None:
            if run is not None:
                _set_refused(run.call, event)
            return
        if run is not None and run.call:
            run.call["http_status"] = exchange.status
        keys = {key: event.metadata.get(key) for key in ("call_id", "attempt")}
        self._add_row("http", run, event, keys | _exchange_columns(exchange))
        self.bytes += exchange.request_bytes + (exchange.response_bytes or 0)

    def _on_turn_done(self, run: OpenRun, event: kinds.TurnDone) -> None:
        response, message, call = event.response, event.message, run.call
        if response is None or message is None:
            return
        run.end_thinking()  # if no text followed it
        meta = response.metadata or {}
        usage = response.usage
        call.update(
            response_model=meta.get("model"),
            response_id=meta.get("response_id"),
            finish_reason=response.finish_reason,
            finish_reason_raw=meta.get("finish_reason_raw"),
            usage_raw=as_json(meta["usage_raw"]) if meta.get("usage_raw") else None,
            **{name: bool(meta.get(name)) for name in ORIGINS},
            cache_hit=usage.cache_read_tokens > 0 if response.is_counted else None,
        )
        run.end_call()
        _set_replayed(call, meta.get("replayed"))
        blocks = blocks_of(message, response, run.take_thinking())
        self._add_thinking(run, event, call, thinking_of(blocks), usage.reasoning_tokens)
        made = {tool["wire_id"]: tool_call_id for tool_call_id, tool in run.tools.items()}
        for block in blocks:  # tools that the provider ran, whose calls were reported earlier
            block["tool_call_id"] = made.get(block.get("tool_call_id"))
        rows = self._add_message(run, event, message, blocks, call)
        run.call_blocks = [row for row in rows if row["type"] == "tool_call" and row["tool_call_id"] is None]
        for index, cited in enumerate(meta.get("citations", ())):
            row = {**cited, "text": message.text[cited["start"] : cited["end"]], "index": index}
            self._add_row("citations", run, event, {**row, "message_id": run.last_message, "call_id": call["call_id"]})
            self.bytes += len(row["text"])

    def _on_usage(self, run: OpenRun, event: kinds.UsageReport) -> None:
        """Add the usage of an attempt. Earlier attempts may have failed."""
        call, meta = run.call, event.metadata
        before, cost = call.get("cost_usd", 0.0), meta.get("cost_usd")
        call["cost_usd"] = None if before is None or cost is None else before + cost
        call["usage_estimated"] = bool(call.get("usage_estimated") or meta.get("estimated"))
        call["replayed"] = bool(meta.get("replayed"))
        if "input_tokens" in meta:
            for name, count in zip(USAGE, _usage_counts(event.usage), strict=True):
                call[name] = call.get(name, 0) + count

    def _on_tool_call(self, run: OpenRun, event: Event) -> None:
        """Add the row when the model makes the call, so that calls without a result have one."""
        meta = event.metadata
        own = [row for row in run.call_blocks if row["tool_call_id"] is None]
        if own:
            own[0]["tool_call_id"] = meta["tool_call_id"]
        row: Row = {key: meta.get(key) for key in ("tool_call_id", "wire_id", "call_id", "step", "index", "source")}
        args = as_json(event.tool_arguments)
        row.update(name=event.tool_name, args=args, args_sent=args)
        row["parallel_group"] = None if row["source"] else row["call_id"]  # the provider's tools run sequentially
        run.tools[meta["tool_call_id"]] = self._add_row("tool_calls", run, event, row)

    def _on_tool_result(self, run: OpenRun, event: kinds.ToolResult) -> None:
        row, outcome, message = run.tools[event.metadata["tool_call_id"]], event.outcome, event.message
        if outcome is None:
            return
        row.update(outcome_columns(outcome))
        if event.outputs:
            row["outputs"] = as_json(event.outputs)
            self.bytes += len(row["outputs"])
        if outcome.approval == "edited":
            row["args"] = as_json(outcome.call.arguments)
        if self.keep_results and not outcome.is_error:
            self.results.add(row["tool_call_id"], outcome.value, row["result_text"])
        if message is not None:  # for a tool that the provider ran, the answer contains the result
            run.results[row["tool_call_id"]] = message

    def _on_cell_changed(self, run: OpenRun, event: kinds.CellChanged) -> None:
        row: Row = {name: getattr(event, name) for name in ("cell", "kind", "before", "after", "outputs_hash")}
        self._add_row("cells", run, event, row | {key: event.metadata.get(key) for key in ("call_id", "tool_call_id")})
        self.bytes += len(event.before or "") + len(event.after or "")

    def _on_context(self, _run: OpenRun, event: kinds.Context) -> None:
        """Add the rows of the trimmed messages to the event, for files. Only the recorder knows them."""
        known = [message.encoded.get(self._row_key) for message in event.messages]
        if trimmed := list(filter(None, known)):
            event.metadata = {**event.metadata, "trimmed": trimmed}
            self.trimmed.update(trimmed)
            self._new_trimmed += trimmed

    def _on_done(self, run: OpenRun, event: kinds.Done | kinds.Error | kinds.Interrupted) -> None:
        """Complete the run's row from its calls, and mark unfinished calls and tool calls."""
        error = event.exception if isinstance(event, kinds.Error) else None
        cut = {
            "error_type": type(error).__name__ if error else "interrupted",
            "error_message": str(error or "") or None,
        }
        if call := run.call:
            if "duration_s" not in call:  # no complete answer arrived
                call.update(cut)
                run.end_call()
                call["http_status"] = getattr(error, "status", None) or call.get("http_status")
                call["error_code"] = error.code if isinstance(error, ProviderError) else None
                _set_replayed(call, getattr(error, "replayed", None))
            if thought := run.take_thinking():
                self._add_thinking(run, event, call, thinking_of(blocks_of(_NOTHING, thought=thought)))
        for tool in run.tools.values():
            if "is_error" not in tool:
                tool.update(cut, is_error=True)
        self._add_unsent(run, event)
        run.end_turn()
        if run.request[0] is not None:  # a request was sent
            self._sent[run.conversation] = run.request
        if len(self._sent) > REMEMBERED:
            del self._sent[next(iter(self._sent))]
        run.row.update(
            output=None if error else event.content,
            status=_status(event),
            status_reason=event.result.status_reason if isinstance(event, kinds.Done) and event.result else None,
            error_type=type(error).__name__ if error else None,
            error_message=str(error) if error else None,
            **run.totals(),
            ended=time.time(),
            duration_s=event.metadata["duration_s"],
        )

    _on_error = _on_interrupted = _on_done


def _without_ids(meta: Mapping[str, Any]) -> Row:
    """An event's metadata without keys that have their own columns."""
    return {key: value for key, value in meta.items() if key not in _EVENT_IDS}


def _exchange_columns(exchange: Exchange) -> Row:
    """The columns of `http` from the exchange, with mappings and sequences as JSON."""
    row = {field.name: getattr(exchange, field.name) for field in fields(exchange)}
    for name in ("request_headers", "response_headers", "secrets"):
        row[name] = None if row[name] is None else as_json(row[name])
    return row


def _set_refused(call: Row, event: Event) -> None:
    """Add the field that the provider refused, if the event reports one."""
    if (name := event.metadata.get("refused")) is not None:
        known = json.loads(call.get("refused") or "{}")
        call["refused"] = as_json({**known, name: event.metadata["instead"]})


def _set_replayed(call: Row, times: Mapping[str, Any] | None) -> None:
    """Mark the call as replayed if it has recorded times, and use these times. Its other times are unknown.

    A replayed answer that was stopped has no recorded times; it was marked with its usage.
    """
    call["replayed"] = times is not None or call.get("replayed", False)
    if times is not None:
        call.update({"thinking_s": None, "setup_s": None, **times})


def _status(event: Event) -> str:
    if isinstance(event, kinds.Done) and event.result is not None:
        return event.result.status
    return "error" if isinstance(event, kinds.Error) else "interrupted"


_NOTHING = LLMMessage("assistant")
_TRIMMED = "SELECT message_id FROM messages WHERE trimmed"
#: Metadata keys with their own columns.
_EVENT_IDS = frozenset({"run_id", "call_id", "tool_call_id"})
#: The columns that blocks share with their message.
_MESSAGE_KEYS = ("run_id", "session_id", "cell_id", "ts", "message_id", "call_id")
#: The columns of a failed call -> keys in the metadata of a `retry` with another model.
_FAILED = {"error_type": "error", "error_message": "error_message", "error_code": "code", "http_status": "status"}
#: The columns of `runs` that are known at the start.
_RUN_KEYS = (
    "parent_run_id", "parent_tool_call_id", "branch", "agent", "source", "cell_id", "execution_count", "output_type",
    "user", "session",
)  # fmt: skip

#: Events with pieces of data that a later event repeats completely.
_DELTAS = frozenset({"text", "thinking", "tool_call_delta", "tool_printed", "child"})
#: Events whose metadata may contain lists and dicts that change later.
_NESTED = frozenset({"run_started", "turn_started", "context", "retry", "http"})
#: Events that end the previous turn; all but the first also end the run.
_TURN_ENDS = frozenset({"turn_started", "done", "error", "interrupted"})
#: The recorder of each run in progress.
_recording: WeakValueDictionary[str, Recorder] = WeakValueDictionary()
#: All recorders of this process, and after a fork the state of the parent's.
_recorders: WeakSet[Recorder] = WeakSet()
_of_parent: list[Mapping[str, Any]] = []
#: Events that may arrive while their run is not open.
_OUTSIDE = frozenset({"run_started", "http"})

#: The handlers by type of event. All events except deltas also become rows of `events`.
_HANDLERS: dict[str, Callable[[Recorder, Any, Any], None]] = {
    name.removeprefix("_on_"): method for name, method in vars(Recorder).items() if name.startswith("_on_")
}


def _restart_after_fork() -> None:
    for recorder in list(_recorders):
        recorder.restart_after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_restart_after_fork)
