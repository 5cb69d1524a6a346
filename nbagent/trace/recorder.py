"""`Trace`: records a run's events as rows. It costs microseconds a row, and pandas is loaded when you look."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from nbagent.core import events as kinds
from nbagent.core.context import estimate_tokens
from nbagent.core.events import Event
from nbagent.core.messages import LLMMessage, LLMResponse, ToolOutcome
from nbagent.core.turn import new_id

if TYPE_CHECKING:
    from nbagent.trace.frames import TraceFrame

Row = dict[str, Any]

#: Characters of `result_repr`; the whole text the model read is in `result_text`.
REPR_CHARS = 2_000


class Trace:
    """Tables of everything that happened: `runs`, `calls`, `messages`, `tool_calls`, `thinking`, `usage`, `events`.

    Every table has `run_id`, `session_id` and `ts`; join them by `run_id`, `call_id` and `tool_call_id`. Tables exist
    with all their columns before anything happened. Several agents may share one trace.

    >>> trace = Trace()
    >>> list(trace.tool_calls.columns)[:3]
    ['tool_call_id', 'wire_id', 'call_id']
    """

    def __init__(self) -> None:
        self.session_id = new_id("session")
        self._rows: dict[str, list[Row]] = {
            name: [] for name in ("runs", "calls", "messages", "tool_calls", "thinking", "events")
        }
        self._lock = threading.RLock()
        self._runs: dict[str, Row] = {}
        self._calls: dict[str, Row] = {}
        self._tools: dict[str, Row] = {}
        self._thinking: dict[str, list[str]] = {}
        self._system: str | None = None
        self._version = 0
        self._frames: dict[str, tuple[int, TraceFrame]] = {}

    @property
    def runs(self) -> TraceFrame:
        """One row per question asked."""
        return self._frame("runs")

    @property
    def calls(self) -> TraceFrame:
        """One row per model request."""
        return self._frame("calls")

    @property
    def messages(self) -> TraceFrame:
        """One row per message that entered the conversation."""
        return self._frame("messages")

    @property
    def tool_calls(self) -> TraceFrame:
        """One row per tool call: arguments, result, validity, duration."""
        return self._frame("tool_calls")

    @property
    def thinking(self) -> TraceFrame:
        """One row per stretch of thinking."""
        return self._frame("thinking")

    @property
    def usage(self) -> TraceFrame:
        """Tokens and cost, summed by run and model."""
        return self._frame("usage")

    @property
    def events(self) -> TraceFrame:
        """One row per event that is not a piece of text."""
        return self._frame("events")

    def __repr__(self) -> str:
        counts = ", ".join(f"{len(self._rows[name])} {name}" for name in ("runs", "calls", "tool_calls", "events"))
        return f"<Trace: {counts.replace('_', ' ')}>"

    def rows(self, table: str) -> list[Row]:
        """Copies of a table's rows as dicts, oldest first."""
        with self._lock:
            return [dict(row) for row in self._rows[table]]

    def _frame(self, name: str) -> TraceFrame:
        from nbagent.trace import frames

        with self._lock:
            version, frame = self._frames.get(name, (-1, None))
            if frame is None or version != self._version:
                source = self._rows["calls" if name == "usage" else name]
                frame = frames.usage(source) if name == "usage" else frames.build(name, source)
                self._frames[name] = (self._version, frame)
            return frames.copy_of(frame)

    def record(self, event: Event) -> None:
        """Take one event of a run; the agent calls this."""
        if event.type in _PIECES:
            call = self._calls.get(event.metadata.get("call_id", ""))
            if call is not None and call["ttft_s"] is None:
                call["ttft_s"] = time.time() - call["started"]
            if isinstance(event, kinds.Thinking):
                self._thinking.setdefault(event.metadata.get("call_id", ""), []).append(event.content)
            return
        with self._lock:
            self._version += 1
            if handler := _HANDLERS.get(event.type):
                handler(self, event)
            self._note(event)

    def _add(self, table: str, event: Event, **values: Any) -> Row:
        """Append a row with the columns that all tables share."""
        row = {"run_id": event.metadata.get("run_id"), "session_id": self.session_id, "ts": time.time(), **values}
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

    def _run_started(self, event: kinds.RunStarted) -> None:
        meta = event.metadata
        row = self._add(
            "runs",
            event,
            agent=meta.get("agent"),
            source=meta.get("source"),
            cell_id=meta.get("cell_id"),
            execution_count=meta.get("execution_count"),
            prompt=event.content,
            status="running",
            started=time.time(),
        )
        self._runs[meta["run_id"]] = row
        for message in event.messages:
            if message.role == "system":
                if message.text == self._system:
                    continue
                self._system = message.text
            self._message(event, message)

    def _turn_started(self, event: Event) -> None:
        facts = {key: value for key, value in event.metadata.items() if key not in ("run_id", "temperature")}
        params = {"temperature": event.metadata.get("temperature")}
        row = self._add("calls", event, **facts, params=as_json(params), started=time.time(), ttft_s=None, retries=0)
        row.update(attempt=1, retry_wait_s=0.0)
        self._calls[event.metadata["call_id"]] = row

    def _retried(self, event: Event) -> None:
        call = self._calls.get(event.metadata.get("call_id", ""))
        self._thinking.pop(event.metadata.get("call_id", ""), None)
        if call is not None:
            call["retries"] += 1
            call["attempt"] += 1
            call["retry_wait_s"] += event.metadata.get("wait_s") or 0.0

    def _turn_done(self, event: kinds.TurnDone) -> None:
        response, call = event.response, self._calls.get(event.metadata.get("call_id", ""))
        if call is None or response is None:
            return
        meta = response.metadata or {}
        call.update(
            response_model=meta.get("model"),
            response_id=meta.get("response_id"),
            finish_reason=response.finish_reason,
            finish_reason_raw=meta.get("finish_reason_raw"),
            usage_raw=as_json(meta["usage_raw"]) if meta.get("usage_raw") else None,
            usage_estimated="usage" not in meta,
            **response.usage.to_dict(),
            total_tokens=response.usage.total_tokens,
            duration_s=time.time() - call["started"],
        )
        self._close_thinking(event, response)
        self._message(event, LLMMessage("assistant", response.content, tool_calls=response.function_calls))

    def _close_thinking(self, event: Event, response: LLMResponse | None) -> None:
        call_id = event.metadata.get("call_id", "")
        text = "".join(self._thinking.pop(call_id, []))
        if not text:
            return
        tokens = response.usage.reasoning_tokens if response else None
        index = sum(row["call_id"] == call_id for row in self._rows["thinking"])
        self._add(
            "thinking", event, call_id=call_id, index=index, text=text, chars=len(text), kind="visible",
            reasoning_tokens=tokens,
        )  # fmt: skip

    def _used(self, event: Event) -> None:
        if call := self._calls.get(event.metadata.get("call_id", "")):
            call["cost_usd"] = event.metadata.get("cost_usd")

    def _tool_called(self, event: Event) -> None:
        """A row from the moment of the call, so that calls without a result are there too."""
        meta = event.metadata
        row = self._add(
            "tool_calls",
            event,
            name=event.tool_name,
            args=as_json(event.tool_arguments),
            parallel_group=meta.get("call_id"),
            cell_id=self._runs.get(meta["run_id"], {}).get("cell_id"),
            **{key: meta.get(key) for key in ("tool_call_id", "wire_id", "call_id", "step", "index")},
        )
        self._tools[meta["tool_call_id"]] = row

    def _tool_result(self, event: kinds.ToolResult) -> None:
        row, outcome = self._tools.pop(event.metadata.get("tool_call_id", ""), None), event.outcome
        if row is None or outcome is None:
            return
        row.update(args=as_json(outcome.call.arguments), args_raw=outcome.call.raw, **_about(outcome))
        message = LLMMessage("tool", event.content, outcome.call.name, tool_call_id=outcome.call.id)
        self._message(event, message)

    def _message(self, event: Event, message: LLMMessage) -> None:
        rows = self._rows["messages"]
        parts = 1 if isinstance(message.content, str) else len(message.content)
        self._add(
            "messages",
            event,
            message_id=new_id("msg"),
            parent_id=rows[-1]["message_id"] if rows else None,
            turn=event.metadata.get("step"),
            index=len(rows),
            role=message.role,
            text=message.text,
            n_blocks=parts + len(message.tool_calls or []),
            call_id=event.metadata.get("call_id"),
            tokens_est=estimate_tokens(message),
        )

    def _ended(self, event: Event) -> None:
        """`done`, `error` or `interrupted`: the run's row is completed from its own calls."""
        run = self._runs.pop(event.metadata["run_id"], None)
        if run is None:
            return
        calls = [row for row in self._rows["calls"] if row["run_id"] == run["run_id"]]
        tools = [row for row in self._rows["tool_calls"] if row["run_id"] == run["run_id"]]
        error = event.exception if isinstance(event, kinds.Error) else None
        for call in calls:
            self._calls.pop(call["call_id"], None)
            if "duration_s" not in call:  # cut off before its answer was whole
                call["duration_s"] = time.time() - call["started"]
                call["error_type"] = type(error).__name__ if error else "interrupted"
                call["error_message"] = str(error) if error else None
                call["http_status"] = getattr(error, "status", None)
        self._close_thinking(event, None)
        costs = [call.get("cost_usd") for call in calls]
        run.update(
            output=event.content if not error else None,
            status=_status(event),
            error_type=type(error).__name__ if error else None,
            error_message=str(error) if error else None,
            n_calls=len(calls),
            n_tool_calls=len(tools),
            **{key: sum(call.get(key) or 0 for call in calls) for key in USAGE},
            cost_usd=sum(cost for cost in costs if cost is not None) if None not in costs and costs else None,
            cost_known=bool(costs) and None not in costs,
            ended=time.time(),
            duration_s=time.time() - run["started"],
            replayed=False,
        )


USAGE = ("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens", "total_tokens")


def _status(event: Event) -> str:
    if isinstance(event, kinds.Done) and event.result is not None:
        return event.result.status
    return "error" if isinstance(event, kinds.Error) else "interrupted"


def _about(outcome: ToolOutcome) -> Row:
    """The columns of `tool_calls` that come from the call's outcome."""
    error = outcome.error
    return {
        "args_valid": outcome.args_valid,
        "validation_error": outcome.validation_error,
        "repaired": outcome.repaired,
        "approval": outcome.approval,
        "result_text": outcome.content if isinstance(outcome.content, str) else "[image]",
        "result_type": None if outcome.is_error else type(outcome.value).__name__,
        "result_repr": None if outcome.is_error else _repr(outcome.value),
        "truncated": outcome.truncated,
        "result_chars": outcome.result_chars,
        "is_error": outcome.is_error,
        "error_type": type(error).__name__ if error else None,
        "error_message": str(error) if error else None,
        "started": outcome.started,
        "ended": outcome.started + outcome.duration_s,
        "duration_s": outcome.duration_s,
        "function_version": outcome.function_version,
    }


def _repr(value: Any) -> str:
    try:
        text = repr(value)
    except Exception as error:  # noqa: BLE001  a user's class with a broken repr must not end the run
        text = f"<{type(value).__name__} whose repr raised {type(error).__name__}>"
    return text if len(text) <= REPR_CHARS else text[:REPR_CHARS] + "…"


def as_json(value: Any) -> str:
    """JSON text; what JSON does not know becomes its `str()`."""
    return json.dumps(value, ensure_ascii=False, default=str)


#: Pieces of something that comes again, whole.
_PIECES = frozenset({"text", "thinking", "tool_call_delta"})

#: The events that fill tables; all but pieces are rows of `events` besides.
_HANDLERS: dict[str, Callable[[Trace, Any], None]] = {
    "run_started": Trace._run_started,
    "turn_started": Trace._turn_started,
    "tool_call": Trace._tool_called,
    "tool_result": Trace._tool_result,
    "retry": Trace._retried,
    "turn_done": Trace._turn_done,
    "usage": Trace._used,
    "done": Trace._ended,
    "error": Trace._ended,
    "interrupted": Trace._ended,
}
