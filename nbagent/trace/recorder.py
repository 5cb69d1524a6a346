"""`Recorder`: the rows that a run's events make. It costs microseconds a row, and needs no pandas."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from nbagent.core import events as kinds
from nbagent.core.context import estimate_tokens
from nbagent.core.events import Event
from nbagent.core.http_log import Exchange
from nbagent.core.images import described
from nbagent.core.messages import LLMMessage
from nbagent.core.run import new_id
from nbagent.trace.blocks import blocks_of, thinking_of
from nbagent.trace.journal import Journal
from nbagent.trace.rows import Row, about_exchange, about_outcome, as_json

log = logging.getLogger("nbagent")

#: The tables that are recorded; `usage` is summed up from `calls`.
TABLES = ("runs", "calls", "messages", "blocks", "tool_calls", "thinking", "events", "http")


class Recorder:
    """Turns events into rows of tables. Rows are completed as more is known; none is ever taken back."""

    def __init__(self, keep_results: bool = True) -> None:
        self.keep_results = keep_results
        self.session_id = new_id("session")
        self._rows: dict[str, list[Row]] = {name: [] for name in TABLES}
        #: What tools returned, by `tool_call_id`.
        self._values: dict[str, Any] = {}
        self._lock = threading.RLock()
        self._open: dict[str, _OpenRun] = {}
        self._system: str | None = None
        self._version = 0
        self._journal: Journal | None = None

    def rows(self, table: str) -> list[Row]:
        """Copies of a table's rows as dicts, oldest first."""
        with self._lock:
            return [dict(row) for row in self._rows[table]]

    def record(self, event: Event) -> None:
        """Take one event of a run; the agent calls this."""
        run = self._open.get(event.metadata["run_id"])
        if event.type in _PIECES:
            call = run.calls.get(event.metadata.get("call_id", "")) if run else None
            if call is not None and call["ttft_s"] is None:
                call["ttft_s"] = time.time() - run.sent[call["call_id"]] if run else None
            if run and isinstance(event, kinds.Thinking):
                run.thinking.setdefault(event.metadata["call_id"], []).append(event.content)
            elif run and call is not None and call["thinking_s"] is None and call["call_id"] in run.thinking:
                call["thinking_s"] = _thought_for(run, call)
            return
        with self._lock:
            self._version += 1
            if isinstance(event, kinds.RunStarted):
                self._run_started(event)
            elif isinstance(event, kinds.Http) and event.exchange is not None:
                self._exchanged(event, event.exchange)
            elif run is not None and (handler := _HANDLERS.get(event.type)):
                handler(self, run, event)
            self._note(event)
            if event.type in _ENDS:
                self._open.pop(event.metadata["run_id"], None)
            if self._journal is not None and (event.type == "turn_started" or event.type in _ENDS):
                self._write(self._journal)

    def _write(self, journal: Journal) -> None:
        """A full disk ends the file, not the run."""
        try:
            journal.write(self._rows)
        except OSError as error:
            self._journal = None
            log.warning("the trace is not written to %s any more: %s", journal.path, error)

    def _add(self, table: str, event: Event, **values: Any) -> Row:
        """Append a row with the columns that all tables share."""
        run_id = event.metadata["run_id"]
        open_run = self._open.get(run_id)
        cell_id = open_run.row["cell_id"] if open_run else None
        row = {"run_id": run_id, "session_id": self.session_id, "ts": time.time(), "cell_id": cell_id, **values}
        self._rows[table].append(row)
        return row

    def _note(self, event: Event) -> None:
        meta = event.metadata
        data = {key: value for key, value in meta.items() if key not in ("run_id", "call_id", "tool_call_id")}
        self._add(
            "events",
            event,
            event_id=len(self._rows["events"]),
            type=event.type,
            name=event.tool_name,
            call_id=meta.get("call_id"),
            tool_call_id=meta.get("tool_call_id"),
            content=event.content,
            data=as_json(data),
        )

    def _exchanged(self, event: Event, exchange: Exchange) -> None:
        about = {key: event.metadata.get(key) for key in ("call_id", "attempt")}
        self._add("http", event, **about, **about_exchange(exchange))

    def _run_started(self, event: kinds.RunStarted) -> None:
        meta = event.metadata
        row = self._add(
            "runs",
            event,
            **{key: meta.get(key) for key in _ORIGIN},
            prompt=event.content,
            status="running",
            started=time.time(),
        )
        self._open[meta["run_id"]] = _OpenRun(row)
        for message in event.messages:
            if message.role == "system":
                if message.text == self._system:
                    continue
                self._system = message.text
            self._message(event, message, blocks_of(message))

    def _turn_started(self, run: _OpenRun, event: Event) -> None:
        facts = {key: value for key, value in event.metadata.items() if key not in ("run_id", "params")}
        row = self._add("calls", event, **facts, params=as_json(event.metadata.get("params")))
        row.update(attempt=1, retries=0, retry_wait_s=0.0, started=row["ts"], ttft_s=None, thinking_s=None)
        run.calls[row["call_id"]] = row
        run.sent[row["call_id"]] = row["ts"]

    def _retried(self, run: _OpenRun, event: Event) -> None:
        """What the broken attempt said does not count; the first token is measured anew."""
        call_id = event.metadata["call_id"]
        run.thinking.pop(call_id, None)
        call = run.calls[call_id]
        wait = event.metadata.get("wait_s") or 0.0
        call.update(ttft_s=None, thinking_s=None, retries=call["retries"] + 1, attempt=call["attempt"] + 1)
        call["retry_wait_s"] += wait
        run.sent[call_id] = time.time() + wait

    def _turn_done(self, run: _OpenRun, event: kinds.TurnDone) -> None:
        response, call = event.response, run.calls[event.metadata["call_id"]]
        if response is None:
            return
        if call["thinking_s"] is None and call["call_id"] in run.thinking:  # nothing came after it piece by piece
            call["thinking_s"] = _thought_for(run, call)
        meta = response.metadata or {}
        usage = response.usage
        counted: Row = {}
        if response.is_counted:
            counted = {**usage.to_dict(), "total_tokens": usage.total_tokens, "cache_hit": usage.cache_read_tokens > 0}
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
        message = LLMMessage("assistant", response.message_content, tool_calls=response.function_calls)
        blocks = blocks_of(message, response, "".join(run.thinking.pop(call["call_id"], ())))
        self._thought(event, call["call_id"], thinking_of(blocks), usage.reasoning_tokens)
        run.called[call["call_id"]] = [
            row for row in self._message(event, message, blocks) if row["type"] == "tool_call"
        ]

    def _thought(self, event: Event, call_id: str, stretches: list[Row], tokens: int | None = None) -> None:
        """The tokens of a call's thinking stand in the first of its rows."""
        for row in stretches:
            self._add("thinking", event, call_id=call_id, reasoning_tokens=tokens if row["index"] == 0 else None, **row)

    def _used(self, run: _OpenRun, event: Event) -> None:
        run.calls[event.metadata["call_id"]]["cost_usd"] = event.metadata.get("cost_usd")

    def _tool_called(self, run: _OpenRun, event: Event) -> None:
        """A row from the moment of the call, so that calls without a result are there too."""
        meta = event.metadata
        own = [row for row in run.called.get(meta["call_id"], ()) if row["tool_call_id"] is None]
        if own:
            own[0]["tool_call_id"] = meta["tool_call_id"]
        run.tools[meta["tool_call_id"]] = self._add(
            "tool_calls",
            event,
            name=event.tool_name,
            args=as_json(event.tool_arguments),
            parallel_group=meta.get("call_id"),
            **{key: meta.get(key) for key in ("tool_call_id", "wire_id", "call_id", "step", "index")},
        )

    def _tool_result(self, run: _OpenRun, event: kinds.ToolResult) -> None:
        row, outcome = run.tools[event.metadata["tool_call_id"]], event.outcome
        if outcome is None:
            return
        row.update(args=as_json(outcome.call.arguments), args_raw=outcome.call.raw, **about_outcome(outcome))
        if self.keep_results and not outcome.is_error:
            self._values[row["tool_call_id"]] = outcome.value
        message = LLMMessage("tool", outcome.content, outcome.call.name, tool_call_id=outcome.call.id)
        self._message(event, message, blocks_of(message))

    def _message(self, event: Event, message: LLMMessage, blocks: list[Row]) -> list[Row]:
        """A message's row and those of its blocks, which are returned."""
        rows = self._rows["messages"]
        row = self._add(
            "messages",
            event,
            message_id=new_id("msg"),
            parent_id=rows[-1]["message_id"] if rows else None,
            turn=event.metadata.get("step"),
            index=len(rows),
            role=message.role,
            text=described(message.content) if message.role == "tool" else message.text,
            n_blocks=len(blocks),
            call_id=event.metadata.get("call_id"),
            tokens_est=estimate_tokens(message),
        )
        shared = {key: row[key] for key in _OF_MESSAGE} | {"tool_call_id": event.metadata.get("tool_call_id")}
        made = [
            {**shared, "block_id": f"{row['message_id']}_{index}", "index": index, **block}
            for index, block in enumerate(blocks)
        ]
        self._rows["blocks"] += made
        return made

    def _ended(self, run: _OpenRun, event: kinds.Done | kinds.Error | kinds.Interrupted) -> None:
        """The run's row is completed from its own calls; what was cut off says so."""
        error = event.exception if isinstance(event, kinds.Error) else None
        cut = {
            "error_type": type(error).__name__ if error else "interrupted",
            "error_message": str(error or "") or None,
        }
        for call_id, call in run.calls.items():
            if "duration_s" not in call:  # no whole answer came
                call.update(cut, duration_s=time.time() - call["started"], http_status=getattr(error, "status", None))
                _replayed(call, getattr(error, "replayed", None))
            thought = "".join(run.thinking.pop(call_id, ()))
            self._thought(event, call_id, thinking_of(blocks_of(_NOTHING, thought=thought)))
        for tool in run.tools.values():
            if "is_error" not in tool:
                tool.update(cut, is_error=True)
        for message in () if isinstance(event, kinds.Done) else event.messages:
            self._message(event, message, blocks_of(message))
        calls = list(run.calls.values())
        costs = [call.get("cost_usd") for call in calls]
        known = bool(costs) and None not in costs
        run.row.update(
            output=None if error else event.content,
            status=_status(event),
            error_type=type(error).__name__ if error else None,
            error_message=str(error) if error else None,
            n_calls=len(calls),
            n_tool_calls=len(run.tools),
            **{key: _sum([call[key] for call in calls if call.get(key) is not None]) for key in USAGE},
            cost_usd=sum(cost for cost in costs if cost is not None) if known else None,
            cost_known=known,
            ended=time.time(),
            duration_s=time.time() - run.row["started"],
            replayed=bool(calls) and all(call.get("replayed") for call in calls),
        )


@dataclass(slots=True)
class _OpenRun:
    """A run that goes on: its row, and the rows of its calls by their ids."""

    row: Row
    calls: dict[str, Row] = field(default_factory=dict)
    tools: dict[str, Row] = field(default_factory=dict)
    thinking: dict[str, list[str]] = field(default_factory=dict)
    called: dict[str, list[Row]] = field(default_factory=dict)  # the blocks of each call's tool calls
    sent: dict[str, float] = field(default_factory=dict)  # when the call's current attempt went out


def _thought_for(run: _OpenRun, call: Row) -> float:
    """Seconds from the first token, which was one of thinking, until now."""
    return float(time.time() - run.sent[call["call_id"]] - call["ttft_s"])


def _replayed(call: Row, times: Mapping[str, Any] | None) -> None:
    """An answer that came out of a recording has the times that were recorded, and none that were not."""
    call["replayed"] = times is not None
    if times is not None:
        call.update({"thinking_s": None, **times})


def _sum(numbers: list[int]) -> int | None:
    """None where nothing is known."""
    return sum(numbers) if numbers else None


_NOTHING = LLMMessage("assistant")
#: What a block has from its message.
_OF_MESSAGE = ("run_id", "session_id", "cell_id", "ts", "message_id", "call_id")
#: What is known of a run when it starts.
_ORIGIN = ("parent_run_id", "agent", "source", "cell_id", "execution_count", "output_type")
USAGE = ("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens", "total_tokens")


def _status(event: Event) -> str:
    if isinstance(event, kinds.Done) and event.result is not None:
        return event.result.status
    return "error" if isinstance(event, kinds.Error) else "interrupted"


#: Pieces of something that comes again, whole.
_PIECES = frozenset({"text", "thinking", "tool_call_delta"})
_ENDS = frozenset({"done", "error", "interrupted"})

#: The events that fill tables; all but pieces are rows of `events` besides.
_HANDLERS: dict[str, Callable[[Recorder, _OpenRun, Any], None]] = {
    "turn_started": Recorder._turn_started,
    "tool_call": Recorder._tool_called,
    "tool_result": Recorder._tool_result,
    "retry": Recorder._retried,
    "turn_done": Recorder._turn_done,
    "usage": Recorder._used,
    "done": Recorder._ended,
    "error": Recorder._ended,
    "interrupted": Recorder._ended,
}
