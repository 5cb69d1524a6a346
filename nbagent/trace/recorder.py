"""`Trace`: records a run's events as rows. It costs microseconds a row, and pandas is loaded when you look."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbagent.core import events as kinds
from nbagent.core.context import estimate_tokens
from nbagent.core.events import Event
from nbagent.core.http_log import Exchange, collecting
from nbagent.core.messages import LLMMessage
from nbagent.core.run import new_id
from nbagent.errors import ConfigurationError
from nbagent.trace import http_log
from nbagent.trace.rows import Row, about_exchange, about_outcome, as_json

if TYPE_CHECKING:
    from nbagent.trace.frames import TraceFrame


class Trace:
    """Tables of what happened: `runs`, `calls`, `messages`, `tool_calls`, `thinking`, `usage`, `events`, `http`.

    Every table has `run_id`, `session_id` and `ts`; join them by `run_id`, `call_id` and `tool_call_id`. Tables exist
    with all their columns before anything happened. Several agents may share one trace.

    With `record_http=True` each HTTP request and response is kept too, secrets removed: in `http`, `curl()` and
    `save_har()`. Switch it on or off at any time (`trace.record_http = True`); it holds for the runs that begin then.

    >>> trace = Trace()
    >>> list(trace.tool_calls.columns)[:3]
    ['tool_call_id', 'wire_id', 'call_id']
    """

    def __init__(self, record_http: bool = False) -> None:
        self.record_http = record_http
        self.session_id = new_id("session")
        self._rows: dict[str, list[Row]] = {
            name: [] for name in ("runs", "calls", "messages", "tool_calls", "thinking", "events", "http")
        }
        self._lock = threading.RLock()
        self._open: dict[str, _OpenRun] = {}
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

    @property
    def http(self) -> TraceFrame:
        """One row per HTTP exchange, failed ones too, where `record_http` is on. `attempt` counts them in each call.

        Bodies are the text that was sent and received, of each at most its first 10 MB (`truncated`); where a secret
        was stands a variable's name, such as `$OPENAI_API_KEY`. Times are in seconds.
        """
        return self._frame("http")

    def curl(self, index: int = -1) -> str:
        """An exchange, the last one if none is named, as a command for a shell; keys come from its environment.

        >>> print(agent.trace.curl())                                       # doctest: +SKIP
        curl -sSN -X POST https://api.openai.com/v1/chat/completions \\
          -H "authorization: Bearer $OPENAI_API_KEY" ...
        """
        rows = self.rows("http")
        if not rows:
            raise ConfigurationError("no HTTP exchange is recorded: set record_http=True before the run")
        return http_log.curl(rows[index])

    def save_har(self, path: str | Path) -> None:
        """Write the exchanges as an HTTP archive, which the network panel of a browser's developer tools opens."""
        Path(path).write_text(as_json(http_log.har(self.rows("http"))), encoding="utf-8")

    @contextmanager
    def recording_http(self) -> Iterator[Trace]:
        """Keep the exchanges of whatever is asked in this block, outside of a run too.

        >>> with trace.recording_http():                                    # doctest: +SKIP
        ...     await agent.provider.model_list()
        """
        outside = {"run_id": None}
        with collecting(lambda each: self.record(kinds.Http(metadata={**outside, **each.facts()}, exchange=each))):
            yield self

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
        run = self._open.get(event.metadata["run_id"])
        if event.type in _PIECES:
            call = run.calls.get(event.metadata.get("call_id", "")) if run else None
            if call is not None and call["ttft_s"] is None:
                call["ttft_s"] = time.time() - run.sent[call["call_id"]] if run else None
            if run and isinstance(event, kinds.Thinking):
                run.thinking.setdefault(event.metadata["call_id"], []).append(event.content)
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

    def _add(self, table: str, event: Event, **values: Any) -> Row:
        """Append a row with the columns that all tables share."""
        run_id = event.metadata["run_id"]
        open_run = self._open.get(run_id)
        shared = {"run_id": run_id, "session_id": self.session_id, "ts": time.time()}
        row = {**shared, "cell_id": open_run.row["cell_id"] if open_run else None, **values}
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
            self._message(event, message)

    def _turn_started(self, run: _OpenRun, event: Event) -> None:
        facts = {key: value for key, value in event.metadata.items() if key not in ("run_id", "params")}
        row = self._add("calls", event, **facts, params=as_json(event.metadata.get("params")), ttft_s=None)
        row.update(attempt=1, retries=0, retry_wait_s=0.0, started=row["ts"])
        run.calls[row["call_id"]] = row
        run.sent[row["call_id"]] = row["ts"]

    def _retried(self, run: _OpenRun, event: Event) -> None:
        """What the broken attempt said does not count; the first token is measured anew."""
        call_id = event.metadata["call_id"]
        run.thinking.pop(call_id, None)
        call = run.calls[call_id]
        wait = event.metadata.get("wait_s") or 0.0
        call.update(ttft_s=None, retries=call["retries"] + 1, attempt=call["attempt"] + 1)
        call["retry_wait_s"] += wait
        run.sent[call_id] = time.time() + wait

    def _turn_done(self, run: _OpenRun, event: kinds.TurnDone) -> None:
        response, call = event.response, run.calls[event.metadata["call_id"]]
        if response is None:
            return
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
        self._close_thinking(run, event, call["call_id"], usage.reasoning_tokens)
        self._message(event, LLMMessage("assistant", response.message_content, tool_calls=response.function_calls))

    def _close_thinking(self, run: _OpenRun, event: Event, call_id: str, tokens: int | None) -> None:
        text = "".join(run.thinking.pop(call_id, []))
        if text:
            facts = {"call_id": call_id, "index": 0, "kind": "visible", "reasoning_tokens": tokens}
            self._add("thinking", event, **facts, text=text, chars=len(text))

    def _used(self, run: _OpenRun, event: Event) -> None:
        run.calls[event.metadata["call_id"]]["cost_usd"] = event.metadata.get("cost_usd")

    def _tool_called(self, run: _OpenRun, event: Event) -> None:
        """A row from the moment of the call, so that calls without a result are there too."""
        meta = event.metadata
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
        self._message(event, LLMMessage("tool", event.content, outcome.call.name, tool_call_id=outcome.call.id))

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
            self._close_thinking(run, event, call_id, None)
        for tool in run.tools.values():
            if "is_error" not in tool:
                tool.update(cut, is_error=True)
        for message in () if isinstance(event, kinds.Done) else event.messages:
            self._message(event, message)
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
            replayed=False,
        )


@dataclass(slots=True)
class _OpenRun:
    """A run that goes on: its row, and the rows of its calls by their ids."""

    row: Row
    calls: dict[str, Row] = field(default_factory=dict)
    tools: dict[str, Row] = field(default_factory=dict)
    thinking: dict[str, list[str]] = field(default_factory=dict)
    sent: dict[str, float] = field(default_factory=dict)  # when the call's current attempt went out


def _sum(numbers: list[int]) -> int | None:
    """None where nothing is known."""
    return sum(numbers) if numbers else None


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
_HANDLERS: dict[str, Callable[[Trace, _OpenRun, Any], None]] = {
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
