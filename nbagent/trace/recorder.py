"""`Recorder` turns the events of runs into rows. A row costs microseconds, and pandas is not needed."""

from __future__ import annotations

import logging
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any

from nbagent.core import events as kinds
from nbagent.core.content.images import content_as_text
from nbagent.core.events import Event
from nbagent.core.history.context import estimate_tokens
from nbagent.core.http_exchange import Exchange
from nbagent.core.messages import LLMMessage, Usage, new_id
from nbagent.core.results import ToolOutcome
from nbagent.errors import ToolError
from nbagent.trace.blocks import blocks_of, thinking_of
from nbagent.trace.storage.journal import Journal
from nbagent.trace.table import Row, SpillFile, Table, as_json

log = logging.getLogger("nbagent")

#: The tables that are recorded; `usage` is computed from `calls`.
TABLES = ("runs", "calls", "messages", "blocks", "tool_calls", "thinking", "events", "http")
#: The columns with token counts, and a function that reads them from a `Usage`.
USAGE = ("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens", "total_tokens")
_usage_counts: Callable[[Usage], tuple[int, ...]] = attrgetter(*USAGE)
#: The columns of `calls` that a run sums up.
_SUMMED = (*USAGE, "cost_usd", "replayed")

#: Default limit of the rows kept in memory, and roughly what one event takes besides its text, in bytes.
MAX_BYTES, EVENT_BYTES = 100_000_000, 700
#: Rows become columns once there are this many new events.
BATCH = 256


@dataclass(slots=True)
class OpenRun:
    """A run in progress: the rows of its current turn, which may still change, and the totals of the turns before."""

    row: Row
    first_open: dict[str, int]  # for each table, the number of the first row that may still change
    last_message: str | None  # the `message_id` of the newest message in the conversation
    call: Row = field(default_factory=dict)  # empty before the first turn
    call_blocks: list[Row] = field(default_factory=list)  # the blocks with the tool calls of the answer
    tools: dict[str, Row] = field(default_factory=dict)  # by `tool_call_id`
    thinking: list[str] = field(default_factory=list)  # the pieces so far
    sent: float = 0.0  # when the current attempt of the call was sent
    waiting: bool = False  # for the first token
    _finished: list[tuple[Any, ...]] = field(default_factory=list)  # `_SUMMED` of each finished call
    _n_tools: int = 0

    def send(self, wait: float = 0.0) -> None:
        """An attempt of the call starts after `wait` seconds; what an earlier one streamed does not count."""
        self.sent, self.waiting = time.time() + wait, True
        self.thinking.clear()

    def add_delta(self, event: Event) -> None:
        """Keep a piece of thinking; measure the time to the first token and the time that the model thought."""
        if self.waiting:
            self.waiting = False
            self.call["ttft_s"] = time.time() - self.sent
        if event.type == "thinking":
            self.thinking.append(event.content)
        else:
            self.end_thinking()

    def end_thinking(self) -> None:
        """Measure how long the model thought, unless it did not think or was measured before."""
        if self.thinking and self.call["thinking_s"] is None:
            self.call["thinking_s"] = time.time() - self.sent - self.call["ttft_s"]

    def take_thinking(self) -> str:
        """The thinking as it was streamed, once."""
        thought = "".join(self.thinking)
        self.thinking.clear()
        return thought

    def end_turn(self) -> None:
        """Let go of the turn's rows, which no longer change; keep what the run's own row needs of them."""
        if self.call:
            self._finished.append(tuple(map(self.call.get, _SUMMED)))
        self._n_tools += len(self.tools)
        self.call, self.call_blocks, self.waiting = {}, [], False
        self.tools.clear()

    def totals(self) -> Row:
        """Columns of `runs`, over all finished turns.

        A count is None if no call reported it; cost is None unless every call's cost is known.

        >>> OpenRun({}, {}, None).totals()["n_calls"]
        0
        """
        values = dict(zip(_SUMMED, zip(*self._finished, strict=True), strict=False))
        known = {name: [value for value in values.get(name, ()) if value is not None] for name in _SUMMED}
        cost_known = len(known["cost_usd"]) == len(self._finished) > 0
        return {
            "n_calls": len(self._finished),
            "n_tool_calls": self._n_tools,
            **{name: sum(known[name]) if known[name] else None for name in USAGE},
            "cost_usd": sum(known["cost_usd"]) if cost_known else None,
            "cost_known": cost_known,
            "replayed": len(self._finished) > 0 and all(values["replayed"]),
        }


class Recorder:
    """Turns events into rows of tables. Rows are completed as more is known; none is ever removed.

    Several runs may record at once, from several threads: who reads `tables` holds `lock`.
    """

    def __init__(self, keep_results: bool = True, max_bytes: int | None = MAX_BYTES) -> None:
        self.keep_results = keep_results
        self.max_bytes = max_bytes
        self.session_id = new_id("session")
        self.tables = {name: Table() for name in TABLES}
        #: What tools returned, by `tool_call_id`.
        self.results: dict[str, Any] = {}
        #: The `message_id`s of the messages that later requests leave out.
        self.trimmed: set[str] = set()
        self.lock = threading.RLock()
        #: The runs in progress, by `run_id`.
        self.open_runs: dict[str, OpenRun] = {}
        #: Roughly how many bytes the rows in memory take.
        self.bytes = 0
        self._journal: Journal | None = None
        self._spill_file: SpillFile | None = None
        self._system: str | None = None
        self._message_ids = new_id("msg")

    def record(self, event: Event) -> None:
        """Take one event of a run."""
        kind, meta = event.type, event.metadata
        run = self.open_runs.get(meta["run_id"])
        if kind in _DELTAS:
            if run is not None and run.call and (kind == "thinking" or run.waiting or run.thinking):
                run.add_delta(event)
            return
        with self.lock:
            if (handler := _HANDLERS.get(kind)) is not None and (run is not None or kind in _OUTSIDE):
                handler(self, run, event)
            self._add_event(event)
            self.bytes += EVENT_BYTES + len(event.content)
            if kind in _TURN_ENDS:
                if kind != "turn_started":
                    self.open_runs.pop(meta["run_id"], None)
                self.end_turn()

    def set_span_ids(self, run_id: str, span_id: str, parent_span_id: str) -> None:
        """Note the OpenTelemetry spans of the current call of a run."""
        with self.lock:
            if (run := self.open_runs.get(run_id)) is not None and run.call:
                run.call.update(span_id=span_id, parent_span_id=parent_span_id)

    def append_to(self, journal: Journal | None) -> None:
        """Write the rows so far to a journal, and new ones after each turn; None ends it."""
        with self.lock:
            if journal is not None:
                journal.write(self.tables, self._settled())
            self._journal = journal

    # -- after a turn -------------------------------------------------------------------------------------------------

    def end_turn(self) -> None:
        """Do what takes longer: write to the journal, and with many new rows make columns and spill them."""
        is_full = self.max_bytes is not None and self.bytes > self.max_bytes
        is_batch = is_full or len(self.tables["events"].rows) >= BATCH
        if not is_batch and self._journal is None:
            return
        settled = self._settled()
        if self._journal is not None:
            self._write_journal(self._journal, settled)
        if is_batch:
            for name, table in self.tables.items():
                table.settle(settled[name])
        if is_full:
            self._spill()

    def _settled(self) -> dict[str, int]:
        """How many rows of each table no longer change: those before the current turn of every run in progress."""
        settled = {name: len(table) for name, table in self.tables.items()}
        for run in self.open_runs.values():
            for name, number in run.first_open.items():
                settled[name] = min(settled[name], number)
        return settled

    def _write_journal(self, journal: Journal, settled: Mapping[str, int]) -> None:
        """A full disk ends the file, not the run."""
        try:
            journal.write(self.tables, settled)
        except OSError as error:
            self._journal = None
            log.warning("the trace is no longer written to %s: %s", journal.path, error)

    def _spill(self) -> None:
        """Move settled rows to a temporary file; drop their tools' values. A full disk ends that, not the run."""
        try:
            file = self._spill_file = self._spill_file or SpillFile()
            for name, table in self.tables.items():
                columns = table.spill(file)
                if name == "tool_calls":
                    for tool_call_id in columns.get("tool_call_id", ()):
                        self.results.pop(tool_call_id, None)
        except OSError as error:
            self.max_bytes = None
            log.warning("the trace stays in memory: its rows can't be written to a temporary file: %s", error)
        self.bytes = 0

    # -- rows ---------------------------------------------------------------------------------------------------------

    def _add_row(self, table: str, event: Event, row: Row) -> Row:
        """Append a row, with the columns that all tables share."""
        run_id = event.metadata["run_id"]
        run = self.open_runs.get(run_id)
        row["run_id"], row["session_id"], row["ts"] = run_id, self.session_id, time.time()
        row["cell_id"] = run.row["cell_id"] if run is not None else None
        self.tables[table].rows.append(row)
        return row

    def _add_event(self, event: Event) -> None:
        data = dict(event.metadata)
        del data["run_id"]
        row: Row = {
            "event_id": len(self.tables["events"]),
            "type": event.type,
            "name": event.tool_name,
            "call_id": data.pop("call_id", None),
            "tool_call_id": data.pop("tool_call_id", None),
            "content": event.content,
            "data": as_json(data) if data else "{}",
        }
        self._add_row("events", event, row)

    def _add_message(self, event: Event, message: LLMMessage, blocks: list[Row]) -> list[Row]:
        """Add a row for the message and rows for its blocks; returns the rows of the blocks."""
        run, number = self.open_runs[event.metadata["run_id"]], len(self.tables["messages"])
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
        self._add_row("messages", event, row)
        run.last_message = message_id
        self.bytes += len(text)
        shared = {key: row[key] for key in _MESSAGE_KEYS} | {"tool_call_id": event.metadata.get("tool_call_id")}
        rows = [
            {**shared, "block_id": f"{message_id}_{index}", "index": index, **block}
            for index, block in enumerate(blocks)
        ]
        self.tables["blocks"].rows += rows
        return rows

    def _add_thinking(self, event: Event, call: Row, rows: list[Row], tokens: int | None = None) -> None:
        """The first row of a call has the tokens of all its thinking."""
        for row in rows:
            row.update(call_id=call["call_id"], reasoning_tokens=tokens if row["index"] == 0 else None)
            self._add_row("thinking", event, row)

    # -- `_on_<type>` takes events of a type --------------------------------------------------------------------------

    def _on_run_started(self, _run: OpenRun | None, event: kinds.RunStarted) -> None:
        meta = event.metadata
        row: Row = {key: meta.get(key) for key in _RUN_KEYS}
        row.update(prompt=event.content, status="running", started=time.time())
        before = event.after.message_id if event.after else None
        self.open_runs[meta["run_id"]] = OpenRun(row, {"runs": len(self.tables["runs"])}, before)
        self._add_row("runs", event, row)
        for message in event.messages:
            if message.role == "system":
                if message.text == self._system:
                    continue
                self._system = message.text
            self._add_message(event, message, blocks_of(message))

    def _on_turn_started(self, run: OpenRun, event: Event) -> None:
        run.end_turn()
        run.first_open.update({name: len(self.tables[name]) for name in ("calls", "blocks", "tool_calls")})
        row = dict(event.metadata)
        row.update(
            params=as_json(row.get("params")), ttft_s=None, thinking_s=None, attempt=1, retries=0, retry_wait_s=0.0
        )
        run.call = self._add_row("calls", event, row)
        row["started"] = row["ts"]
        run.send()

    def _on_retry(self, run: OpenRun, event: Event) -> None:
        """Measure the time to the first token again."""
        call, wait = run.call, event.metadata.get("wait_s") or 0.0
        call.update(ttft_s=None, thinking_s=None, retries=call["retries"] + 1, attempt=call["attempt"] + 1)
        call["retry_wait_s"] += wait
        run.send(wait)

    def _on_http(self, run: OpenRun | None, event: kinds.Http) -> None:
        exchange = event.exchange
        if exchange is None:
            return
        if run is not None and run.call:
            run.call["http_status"] = exchange.status
        keys = {key: event.metadata.get(key) for key in ("call_id", "attempt")}
        self._add_row("http", event, keys | _exchange_columns(exchange))
        self.bytes += exchange.request_bytes + (exchange.response_bytes or 0)

    def _on_turn_done(self, run: OpenRun, event: kinds.TurnDone) -> None:
        response, message, call = event.response, event.message, run.call
        if response is None or message is None:
            return
        run.end_thinking()  # where no text was streamed after it
        meta = response.metadata or {}
        usage = response.usage
        counted: Row = {}
        if response.is_counted:
            counted = dict(zip(USAGE, _usage_counts(usage), strict=True), cache_hit=usage.cache_read_tokens > 0)
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
        _set_replayed(call, meta.get("replayed"))
        blocks = blocks_of(message, response, run.take_thinking())
        self._add_thinking(event, call, thinking_of(blocks), usage.reasoning_tokens)
        rows = self._add_message(event, message, blocks)
        run.call_blocks = [row for row in rows if row["type"] == "tool_call"]

    def _on_usage(self, run: OpenRun, event: Event) -> None:
        run.call["cost_usd"] = event.metadata.get("cost_usd")

    def _on_tool_call(self, run: OpenRun, event: Event) -> None:
        """Add the row when the model makes the call, so that calls without a result have one too."""
        meta = event.metadata
        own = [row for row in run.call_blocks if row["tool_call_id"] is None]
        if own:
            own[0]["tool_call_id"] = meta["tool_call_id"]
        row: Row = {key: meta.get(key) for key in ("tool_call_id", "wire_id", "call_id", "step", "index")}
        row.update(name=event.tool_name, args=as_json(event.tool_arguments), parallel_group=row["call_id"])
        run.tools[meta["tool_call_id"]] = self._add_row("tool_calls", event, row)

    def _on_tool_result(self, run: OpenRun, event: kinds.ToolResult) -> None:
        row, outcome, message = run.tools[event.metadata["tool_call_id"]], event.outcome, event.message
        if outcome is None or message is None:
            return
        row.update(_outcome_columns(outcome))
        if self.keep_results and not outcome.is_error:
            self.results[row["tool_call_id"]] = outcome.value
        self._add_message(event, message, blocks_of(message))

    def _on_context(self, _run: OpenRun, event: Event) -> None:
        self.trimmed.update(event.metadata.get("trimmed", ()))

    def _on_done(self, run: OpenRun, event: kinds.Done | kinds.Error | kinds.Interrupted) -> None:
        """Complete the run's row from its calls, and mark calls and tools that were cut off."""
        error = event.exception if isinstance(event, kinds.Error) else None
        cut = {
            "error_type": type(error).__name__ if error else "interrupted",
            "error_message": str(error or "") or None,
        }
        if call := run.call:
            if "duration_s" not in call:  # no complete answer arrived
                call.update(cut, duration_s=time.time() - call["started"])
                call["http_status"] = getattr(error, "status", None) or call.get("http_status")
                _set_replayed(call, getattr(error, "replayed", None))
            self._add_thinking(event, call, thinking_of(blocks_of(_NOTHING, thought=run.take_thinking())))
        for tool in run.tools.values():
            if "is_error" not in tool:
                tool.update(cut, is_error=True)
        for message in event.messages:
            self._add_message(event, message, blocks_of(message))
        run.end_turn()
        run.row.update(
            output=None if error else event.content,
            status=_status(event),
            error_type=type(error).__name__ if error else None,
            error_message=str(error) if error else None,
            **run.totals(),
            ended=time.time(),
            duration_s=event.metadata["duration_s"],
        )

    _on_error = _on_interrupted = _on_done


def _exchange_columns(exchange: Exchange) -> Row:
    """The columns of `http` that come from the exchange, mappings and sequences as JSON."""
    row = {each.name: getattr(exchange, each.name) for each in fields(exchange)}
    for name in ("request_headers", "response_headers", "secrets"):
        row[name] = None if row[name] is None else as_json(row[name])
    return row


def _outcome_columns(outcome: ToolOutcome) -> Row:
    """The columns of `tool_calls` that are known once the tool has run."""
    error = outcome.error
    whole = error if error is not None and not isinstance(error, ToolError) else None  # our own have nothing to trace
    return {name: getattr(outcome, name) for name in _OUTCOME_KEYS} | {
        "args": as_json(outcome.call.arguments),
        "args_raw": outcome.call.raw,
        "result_text": content_as_text(outcome.content),
        "result_type": None if outcome.is_error else type(outcome.value).__name__,
        "result_repr": outcome.value_repr or None,
        "error_type": type(error).__name__ if error else None,
        "error_message": str(error) if error else None,
        # the whole one, library code included: the model reads a short form
        "traceback": "".join(traceback.format_exception(whole)) if whole else None,
        "ended": outcome.started + outcome.duration_s,
    }


def _set_replayed(call: Row, times: Mapping[str, Any] | None) -> None:
    """An answer from a recording has the recorded times; what was not recorded is unknown."""
    call["replayed"] = times is not None
    if times is not None:
        call.update({"thinking_s": None, **times})


def _status(event: Event) -> str:
    if isinstance(event, kinds.Done) and event.result is not None:
        return event.result.status
    return "error" if isinstance(event, kinds.Error) else "interrupted"


_NOTHING = LLMMessage("assistant")
#: The columns that blocks share with their message.
_MESSAGE_KEYS = ("run_id", "session_id", "cell_id", "ts", "message_id", "call_id")
#: The columns of `tool_calls` that are fields of the outcome.
_OUTCOME_KEYS = (
    "args_valid", "validation_error", "repaired", "approval", "truncated", "result_chars", "is_error", "started",
    "duration_s", "function_version", "cell_id_of_definition",
)  # fmt: skip
#: The columns of `runs` that are known when a run starts.
_RUN_KEYS = ("parent_run_id", "branch", "agent", "source", "cell_id", "execution_count", "output_type")

#: Events with pieces of something that arrives complete in a later event.
_DELTAS = frozenset({"text", "thinking", "tool_call_delta"})
#: Events after which the turn before is over; with all but the first the run too.
_TURN_ENDS = frozenset({"turn_started", "done", "error", "interrupted"})
#: Events that may come when their run is not open.
_OUTSIDE = frozenset({"run_started", "http"})

#: The methods for events that fill tables. All events except deltas become rows of `events` too.
_HANDLERS: dict[str, Callable[[Recorder, Any, Any], None]] = {
    name.removeprefix("_on_"): method for name, method in vars(Recorder).items() if name.startswith("_on_")
}
