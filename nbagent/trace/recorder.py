"""`Recorder`: the rows that a run's events make. It costs microseconds a row, and needs no pandas."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from nbagent.core import events as kinds
from nbagent.core.content.images import content_as_text
from nbagent.core.events import Event
from nbagent.core.history.context import estimate_tokens
from nbagent.core.messages import LLMMessage, new_id
from nbagent.errors import ConfigurationError
from nbagent.trace.blocks import blocks_of, thinking_of
from nbagent.trace.open_run import USAGE, OpenRun, counts
from nbagent.trace.rows import Row, about_exchange, about_outcome, as_json
from nbagent.trace.storage.journal import Journal
from nbagent.trace.table import SpillFile, Table

log = logging.getLogger("nbagent")

#: The tables that are recorded; `usage` is summed up from `calls`.
TABLES = ("runs", "calls", "messages", "blocks", "tool_calls", "thinking", "events", "http")

#: How many bytes of rows are kept in memory, if nothing else is said; and about how many an event makes, without text.
MAX_BYTES, EVENT_BYTES = 100_000_000, 700
#: Rows become columns when there are this many new events.
BATCH = 256


class Recorder:
    """Turns events into rows of tables. Rows are completed as more is known; none is ever taken back."""

    def __init__(self, keep_results: bool = True, max_bytes: int | None = MAX_BYTES) -> None:
        if max_bytes is not None and (type(max_bytes) is not int or max_bytes < 0):
            raise ConfigurationError(f"max_bytes={max_bytes!r}: give a whole number of bytes, or None for no limit")
        self.keep_results = keep_results
        self.max_bytes = max_bytes
        self.session_id = new_id("session")
        self._tables = {name: Table() for name in TABLES}
        #: What tools returned, by `tool_call_id`.
        self._values: dict[str, Any] = {}
        self._lock = threading.RLock()
        self._open: dict[str, OpenRun] = {}
        self._system: str | None = None
        self._message_ids = new_id("msg")
        #: The messages that requests no longer hold, by `message_id`.
        self._trimmed: set[str] = set()
        self._journal: Journal | None = None
        #: About how much memory the rows take that are not spilled, and where those go that are.
        self._bytes = 0
        self._spill_file: SpillFile | None = None

    def rows(self, table: str) -> list[Row]:
        """Copies of a table's rows as dicts, oldest first."""
        with self._lock:
            return [dict(row) for row in self._tables[table].since(0)]

    def record(self, event: Event) -> None:
        """Take one event of a run; the agent calls this."""
        kind, meta = event.type, event.metadata
        run = self._open.get(meta["run_id"])
        if kind in _PIECES:
            if run is not None and (kind == "thinking" or run.waiting or run.thinking):
                run.piece(event)
            return
        with self._lock:
            if (handler := _HANDLERS.get(kind)) is not None and (run is not None or kind in _OUTSIDE):
                handler(self, run, event)
            self._note(event)
            self._bytes += EVENT_BYTES + len(event.content)
            if kind in _TURN_ENDS:
                if kind != "turn_started":
                    self._open.pop(meta["run_id"], None)
                self._turn_over()

    def exported(self, run_id: str, call_id: str, span_id: str, parent_span_id: str) -> None:
        """Take note of the ids under which a call that goes on is told of elsewhere."""
        with self._lock:
            if (run := self._open.get(run_id)) is not None and call_id in run.calls:
                run.calls[call_id].update(span_id=span_id, parent_span_id=parent_span_id)

    def _turn_over(self) -> None:
        """What takes longer waits for the end of a turn, and for many rows: to make columns, to write files."""
        is_full = self.max_bytes is not None and self._bytes > self.max_bytes
        is_batch = is_full or len(self._tables["events"].rows) >= BATCH
        if not is_batch and self._journal is None:
            return
        settled = self._settled()
        if self._journal is not None:
            self._write(self._journal, settled)
        if is_batch:
            for name, table in self._tables.items():
                table.settle(settled[name])
        if is_full:
            self._spill()

    def _settled(self) -> dict[str, int]:
        """How many rows of each table change no more: those before the current turn of each run that goes on."""
        settled = {name: len(table) for name, table in self._tables.items()}
        for run in self._open.values():
            for name, number in run.since.items():
                settled[name] = min(settled[name], number)
        return settled

    def _write(self, journal: Journal, settled: Mapping[str, int]) -> None:
        """A full disk ends the file, not the run."""
        try:
            journal.write(self._tables, settled)
        except OSError as error:
            self._journal = None
            log.warning("the trace is not written to %s any more: %s", journal.path, error)

    def _spill(self) -> None:
        """Move what is settled to a file, and let go of what its tools returned. A full disk ends that, not the run."""
        try:
            file = self._spill_file = self._spill_file or SpillFile()
            for name, table in self._tables.items():
                columns = table.spill(file)
                if name == "tool_calls":
                    for tool_call_id in columns.get("tool_call_id", ()):
                        self._values.pop(tool_call_id, None)
        except OSError as error:
            self.max_bytes = None
            log.warning("the trace stays in memory, its rows can't be written to a temporary file: %s", error)
        self._bytes = 0

    def _add(self, table: str, event: Event, row: Row) -> Row:
        """Append a row, with the columns that all tables share."""
        run_id = event.metadata["run_id"]
        run = self._open.get(run_id)
        row["run_id"], row["session_id"], row["ts"] = run_id, self.session_id, time.time()
        row["cell_id"] = run.row["cell_id"] if run is not None else None
        self._tables[table].rows.append(row)
        return row

    def _note(self, event: Event) -> None:
        data = dict(event.metadata)
        del data["run_id"]
        row: Row = {
            "event_id": len(self._tables["events"]),
            "type": event.type,
            "name": event.tool_name,
            "call_id": data.pop("call_id", None),
            "tool_call_id": data.pop("tool_call_id", None),
            "content": event.content,
            "data": as_json(data) if data else "{}",
        }
        self._add("events", event, row)

    def _exchanged(self, run: OpenRun | None, event: kinds.Http) -> None:
        exchange = event.exchange
        if exchange is None:
            return
        if run is not None and (call := run.calls.get(event.metadata.get("call_id", ""))) is not None:
            call["http_status"] = exchange.status
        about = {key: event.metadata.get(key) for key in ("call_id", "attempt")}
        self._add("http", event, about | about_exchange(exchange))
        self._bytes += exchange.request_bytes + (exchange.response_bytes or 0)

    def _run_started(self, _run: OpenRun | None, event: kinds.RunStarted) -> None:
        meta = event.metadata
        row: Row = {key: meta.get(key) for key in _ORIGIN}
        row.update(prompt=event.content, status="running", started=time.time())
        before = event.after.message_id if event.after else None
        self._open[meta["run_id"]] = OpenRun(row, {"runs": len(self._tables["runs"])}, before)
        self._add("runs", event, row)
        for message in event.messages:
            if message.role == "system":
                if message.text == self._system:
                    continue
                self._system = message.text
            self._message(event, message, blocks_of(message))

    def _turn_started(self, run: OpenRun, event: Event) -> None:
        run.turn_over()
        run.since.update({name: len(self._tables[name]) for name in ("calls", "blocks", "tool_calls")})
        row = dict(event.metadata)
        row.update(
            params=as_json(row.get("params")), ttft_s=None, thinking_s=None, attempt=1, retries=0, retry_wait_s=0.0
        )
        self._add("calls", event, row)
        row["started"] = row["ts"]
        run.calls[row["call_id"]] = row
        run.sent[row["call_id"]] = row["ts"]
        run.waiting.add(row["call_id"])

    def _retried(self, run: OpenRun, event: Event) -> None:
        """What the broken attempt said does not count; the first token is measured anew."""
        call_id = event.metadata["call_id"]
        run.thinking.pop(call_id, None)
        call = run.calls[call_id]
        wait = event.metadata.get("wait_s") or 0.0
        call.update(ttft_s=None, thinking_s=None, retries=call["retries"] + 1, attempt=call["attempt"] + 1)
        call["retry_wait_s"] += wait
        run.sent[call_id] = time.time() + wait
        run.waiting.add(call_id)

    def _turn_done(self, run: OpenRun, event: kinds.TurnDone) -> None:
        response, message, call = event.response, event.message, run.calls[event.metadata["call_id"]]
        if response is None or message is None:
            return
        run.thought(call["call_id"])  # where nothing came after it piece by piece
        meta = response.metadata or {}
        usage = response.usage
        counted: Row = {}
        if response.is_counted:
            counted = dict(zip(USAGE, counts(usage), strict=True), cache_hit=usage.cache_read_tokens > 0)
        call.update(
            response_model=meta.get("model"),
            response_id=meta.get("response_id"),
            finish_reason=response.finish_reason,
            finish_reason_raw=meta.get("finish_reason_raw"),
            usage_raw=as_json(meta["usage_raw"]) if meta.get("usage_raw") else None,
            usage_estimated=False if counted else None,
            quoted=bool(meta.get("quoted")),
            **counted,
            duration_s=time.time() - call["started"],
        )
        _replayed(call, meta.get("replayed"))
        blocks = blocks_of(message, response, "".join(run.thinking.pop(call["call_id"], ())))
        self._thought(event, call["call_id"], thinking_of(blocks), usage.reasoning_tokens)
        run.called[call["call_id"]] = [
            row for row in self._message(event, message, blocks) if row["type"] == "tool_call"
        ]

    def _thought(self, event: Event, call_id: str, stretches: list[Row], tokens: int | None = None) -> None:
        """The tokens of a call's thinking stand in the first of its rows."""
        for row in stretches:
            row.update(call_id=call_id, reasoning_tokens=tokens if row["index"] == 0 else None)
            self._add("thinking", event, row)

    def _used(self, run: OpenRun, event: Event) -> None:
        run.calls[event.metadata["call_id"]]["cost_usd"] = event.metadata.get("cost_usd")

    def _tool_called(self, run: OpenRun, event: Event) -> None:
        """A row from the moment of the call, so that calls without a result are there too."""
        meta = event.metadata
        own = [row for row in run.called.get(meta["call_id"], ()) if row["tool_call_id"] is None]
        if own:
            own[0]["tool_call_id"] = meta["tool_call_id"]
        row: Row = {key: meta.get(key) for key in ("tool_call_id", "wire_id", "call_id", "step", "index")}
        row.update(name=event.tool_name, args=as_json(event.tool_arguments), parallel_group=row["call_id"])
        run.tools[meta["tool_call_id"]] = self._add("tool_calls", event, row)

    def _tool_result(self, run: OpenRun, event: kinds.ToolResult) -> None:
        row, outcome, message = run.tools[event.metadata["tool_call_id"]], event.outcome, event.message
        if outcome is None or message is None:
            return
        row.update(args=as_json(outcome.call.arguments), args_raw=outcome.call.raw, **about_outcome(outcome))
        if self.keep_results and not outcome.is_error:
            self._values[row["tool_call_id"]] = outcome.value
        self._message(event, message, blocks_of(message))

    def _shortened(self, _run: OpenRun, event: Event) -> None:
        self._trimmed.update(event.metadata.get("trimmed", ()))

    def _message(self, event: Event, message: LLMMessage, blocks: list[Row]) -> list[Row]:
        """A message's row and those of its blocks, which are returned."""
        run, number = self._open[event.metadata["run_id"]], len(self._tables["messages"])
        message_id = message.message_id or f"{self._message_ids}_{number}"
        text = content_as_text(message.content) if message.role == "tool" else message.text
        row: Row = {
            "message_id": message_id,
            "parent_id": run.last_message,
            "branch": run.row["branch"],
            "turn": event.metadata.get("step"),
            "index": number,
            "role": message.role,
            "text": text,
            "n_blocks": len(blocks),
            "call_id": event.metadata.get("call_id"),
            "tokens_est": estimate_tokens(message),
            "pinned": message.pinned,
            "trimmed": False,
        }
        self._add("messages", event, row)
        run.last_message = message_id
        self._bytes += len(text)
        shared = {key: row[key] for key in _OF_MESSAGE} | {"tool_call_id": event.metadata.get("tool_call_id")}
        made = [
            {**shared, "block_id": f"{message_id}_{index}", "index": index, **block}
            for index, block in enumerate(blocks)
        ]
        self._tables["blocks"].rows += made
        return made

    def _ended(self, run: OpenRun, event: kinds.Done | kinds.Error | kinds.Interrupted) -> None:
        """The run's row is completed from its own calls; what was cut off says so."""
        error = event.exception if isinstance(event, kinds.Error) else None
        cut = {
            "error_type": type(error).__name__ if error else "interrupted",
            "error_message": str(error or "") or None,
        }
        for call_id, call in run.calls.items():
            if "duration_s" not in call:  # no whole answer came
                call.update(cut, duration_s=time.time() - call["started"])
                call["http_status"] = getattr(error, "status", None) or call.get("http_status")
                _replayed(call, getattr(error, "replayed", None))
            thought = "".join(run.thinking.pop(call_id, ()))
            self._thought(event, call_id, thinking_of(blocks_of(_NOTHING, thought=thought)))
        for tool in run.tools.values():
            if "is_error" not in tool:
                tool.update(cut, is_error=True)
        for message in event.messages:
            self._message(event, message, blocks_of(message))
        run.turn_over()
        run.row.update(
            output=None if error else event.content,
            status=_status(event),
            error_type=type(error).__name__ if error else None,
            error_message=str(error) if error else None,
            **run.sums(),
            ended=time.time(),
            duration_s=event.metadata["duration_s"],
        )


def _replayed(call: Row, times: Mapping[str, Any] | None) -> None:
    """An answer that came out of a recording has the times that were recorded, and none that were not."""
    call["replayed"] = times is not None
    if times is not None:
        call.update({"thinking_s": None, **times})


_NOTHING = LLMMessage("assistant")
#: What a block has from its message.
_OF_MESSAGE = ("run_id", "session_id", "cell_id", "ts", "message_id", "call_id")
#: What is known of a run when it starts.
_ORIGIN = ("parent_run_id", "branch", "agent", "source", "cell_id", "execution_count", "output_type")


def _status(event: Event) -> str:
    if isinstance(event, kinds.Done) and event.result is not None:
        return event.result.status
    return "error" if isinstance(event, kinds.Error) else "interrupted"


#: Pieces of something that comes again, whole.
_PIECES = frozenset({"text", "thinking", "tool_call_delta"})
#: With these the turn before is over; with all but the first the run too.
_TURN_ENDS = frozenset({"turn_started", "done", "error", "interrupted"})
#: What is recorded of no run that goes on.
_OUTSIDE = frozenset({"run_started", "http"})

#: The events that fill tables; all but pieces are rows of `events` besides.
_HANDLERS: dict[str, Callable[[Recorder, Any, Any], None]] = {
    "run_started": Recorder._run_started,
    "http": Recorder._exchanged,
    "turn_started": Recorder._turn_started,
    "tool_call": Recorder._tool_called,
    "tool_result": Recorder._tool_result,
    "retry": Recorder._retried,
    "context": Recorder._shortened,
    "turn_done": Recorder._turn_done,
    "usage": Recorder._used,
    "done": Recorder._ended,
    "error": Recorder._ended,
    "interrupted": Recorder._ended,
}
