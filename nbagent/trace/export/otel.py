"""OpenTelemetry: the runs of agents as spans and metrics. `Trace.to_otel` switches it on, `otel_mapping` has the names.

- `invoke_agent`: a run; below it, side by side,
- `chat`: a request to the model, retries included, each as an event of the span
- `execute_tool`: a tool's run. It is the current span of the tool's own code, so that what a tool does, and the runs
  of agents that it asks, stand below it

What was said, and the texts of errors, are left out unless they are asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, TracerProvider

from nbagent.core import events as kinds
from nbagent.core.events import Event
from nbagent.core.json_text import json_text
from nbagent.core.messages import LLMResponse, Usage
from nbagent.core.results import AgentResult
from nbagent.trace.export.otel_mapping import (
    MEASURED_BY,
    OPTIONS,
    PROVIDERS,
    REQUEST,
    RESPONSE,
    RETRY,
    RUN,
    SECONDS,
    TOKENS,
    TOOL,
    Attributes,
    answer_form,
    picked,
    said_to,
    used,
)
from nbagent.trace.recorder import Recorder

#: Called with the recorder and each event of each of its runs.
Observer = Callable[[Recorder, Event], None]


@dataclass(slots=True)
class _Chat:
    """A request that goes on."""

    span: Span
    attributes: Attributes
    began: float = field(default_factory=perf_counter)
    #: When the attempt that counts was sent, and when its first piece came.
    sent: float = field(default_factory=perf_counter)
    first: float | None = None


@dataclass(slots=True)
class _OpenRun:
    """A run that goes on, and what goes on in it."""

    span: Span
    #: The span that was the current one when the run began.
    around: int
    recorder: Recorder
    usage: Usage = field(default_factory=Usage)
    chat: _Chat | None = None
    tools: dict[str, Span] = field(default_factory=dict)


class Telemetry:
    """Makes spans and metrics of events; an observer of traces. `Trace.to_otel` makes one. Safe under several agents.

    `stop()` ends it, and sends what is still to be sent to a collector that was named by its address.
    """

    def __init__(
        self,
        tracer_provider: TracerProvider,
        meter_provider: MeterProvider,
        capture_content: bool,
        observers: list[Observer],
        shutdown: Callable[[], None],
    ) -> None:
        self.capture_content = capture_content
        #: Those of the trace that it was begun for. Forks of its agent have it among theirs, too.
        self.observers = observers
        self._tracer = tracer_provider.get_tracer("nbagent")
        meter = meter_provider.get_meter("nbagent")
        self._tokens, self._seconds = (
            meter.create_histogram(name, unit, description, explicit_bucket_boundaries_advisory=boundaries)
            for name, unit, description, boundaries in (TOKENS, SECONDS)
        )
        self._shutdown = shutdown
        self._stopped = False
        self._open: dict[str, _OpenRun] = {}

    def __call__(self, recorder: Recorder, event: Event) -> None:
        """Take one event of a run that `recorder` records."""
        if isinstance(event, kinds.RunStarted):
            if not self._stopped:
                self._run_started(recorder, event)
            return
        run, handle = self._open.get(event.metadata["run_id"]), _HANDLERS.get(event.type)
        if run is not None and handle is not None:
            handle(self, run, event)

    def stop(self) -> None:
        """No more: runs that begin from now on are not told of, those of forks neither."""
        self._stopped = True
        if self in self.observers:
            self.observers.remove(self)
        self._shutdown()

    def __repr__(self) -> str:
        return f"<Telemetry to OpenTelemetry, {'with' if self.capture_content else 'without'} what is said>"

    def _run_started(self, recorder: Recorder, event: kinds.RunStarted) -> None:
        """A run that another asked for stands below the tool that asked, or else below that run."""
        meta = event.metadata
        current = trace.get_current_span()
        around = current.get_span_context().span_id
        asking = self._open.get(meta.get("parent_run_id") or "")
        parent = asking.span if asking is not None and asking.around == around else current
        attributes = {"gen_ai.conversation.id": recorder.session_id, **picked(RUN, meta)}
        if self.capture_content:
            attributes |= said_to(event.messages)
        span = self._start("invoke_agent", meta.get("agent"), SpanKind.INTERNAL, parent, attributes)
        self._open[meta["run_id"]] = _OpenRun(span, around, recorder)

    def _turn_started(self, run: _OpenRun, event: kinds.TurnStarted) -> None:
        meta = event.metadata
        asked = {"gen_ai.provider.name": PROVIDERS.get(meta["provider"], meta["provider"]), **picked(REQUEST, meta)}
        run.span.set_attributes({name: asked[name] for name in MEASURED_BY[1:3] if name in asked})
        attributes = asked | picked(OPTIONS, meta.get("params") or {})
        content = said_to(event.messages) if self.capture_content else {}
        span = self._start("chat", meta.get("model"), SpanKind.CLIENT, run.span, attributes | content)
        run.chat = _Chat(span, {"gen_ai.operation.name": "chat", **asked})
        if (context := span.get_span_context()).trace_flags.sampled:
            of_run = run.span.get_span_context()
            ids = trace.format_span_id(context.span_id), trace.format_span_id(of_run.span_id)
            run.recorder.exported(meta["run_id"], meta["call_id"], *ids)

    def _piece(self, run: _OpenRun, event: Event) -> None:
        if run.chat is not None and run.chat.first is None:
            run.chat.first = perf_counter()

    def _retried(self, run: _OpenRun, event: Event) -> None:
        """What the broken attempt said does not count."""
        if run.chat is not None:
            run.chat.span.add_event("retry", picked(RETRY, event.metadata))
            run.chat.sent, run.chat.first = perf_counter() + (event.metadata.get("wait_s") or 0.0), None

    def _turn_done(self, run: _OpenRun, event: kinds.TurnDone) -> None:
        response, chat = event.response, run.chat
        if response is None or chat is None:
            return
        answered = picked(RESPONSE, response.metadata or {})
        if response.finish_reason:
            answered["gen_ai.response.finish_reasons"] = [response.finish_reason]
        if chat.first is not None and chat.attributes.get("gen_ai.request.stream"):
            answered["gen_ai.response.time_to_first_chunk"] = max(0.0, chat.first - chat.sent)
        if self.capture_content:
            answered["gen_ai.output.messages"] = json_text(answer_form(response))
        chat.attributes |= answered
        if response.is_counted:
            answered |= used(response.usage)
            run.usage += response.usage
            for kind, count in (("input", response.usage.input_tokens), ("output", response.usage.output_tokens)):
                self._tokens.record(count, {"gen_ai.token.type": kind, **_measured(chat)})
        chat.span.set_attributes(answered)
        self._chat_ended(run)

    def _chat_ended(self, run: _OpenRun, error: str | None = None, text: str = "") -> None:
        chat, run.chat = run.chat, None
        if chat is not None:
            chat.attributes |= {"error.type": error} if error else {}
            self._seconds.record(perf_counter() - chat.began, _measured(chat))
            self._end(chat.span, error, text)

    def _tool_started(self, run: _OpenRun, event: Event) -> None:
        """The span is the current one from here on: in the tool's own context, in which the event comes."""
        attributes = {"gen_ai.tool.name": event.tool_name or "", "gen_ai.tool.type": "function"}
        attributes |= picked(TOOL, event.metadata)
        if self.capture_content:
            attributes["gen_ai.tool.call.arguments"] = json_text(event.tool_arguments)
        span = self._start("execute_tool", event.tool_name, SpanKind.INTERNAL, run.span, attributes)
        run.tools[event.metadata["tool_call_id"]] = span
        contexts.attach(trace.set_span_in_context(span))

    def _approved(self, run: _OpenRun, event: Event) -> None:
        if span := run.tools.get(event.metadata["tool_call_id"]):
            span.set_attribute("nbagent.tool.approval", event.content)

    def _tool_result(self, run: _OpenRun, event: kinds.ToolResult) -> None:
        span, outcome = run.tools.pop(event.metadata["tool_call_id"], None), event.outcome
        if span is None or outcome is None:  # it was never started
            return
        if self.capture_content and not outcome.is_error:
            span.set_attribute("gen_ai.tool.call.result", event.content)
        error = (type(outcome.error).__name__ if outcome.error else "_OTHER") if outcome.is_error else None
        self._end(span, error, event.content)

    def _limited(self, run: _OpenRun, event: Event) -> None:
        run.span.set_attribute("nbagent.limit_reason", str(event.metadata.get("limit_reason")))

    def _done(self, run: _OpenRun, event: kinds.Done) -> None:
        self._run_ended(run, event, event.result or AgentResult())

    def _failed(self, run: _OpenRun, event: kinds.Error) -> None:
        error = event.exception
        if isinstance(status := getattr(error, "status", None), int):
            for span in (run.span, run.chat.span if run.chat else run.span):
                span.set_attribute("http.response.status_code", status)
        result = getattr(error, "partial", None) or AgentResult(status="error")
        self._run_ended(run, event, result, type(error).__name__)

    def _interrupted(self, run: _OpenRun, event: Event) -> None:
        self._run_ended(run, event, AgentResult(event.content, status="interrupted"), "interrupted")

    def _run_ended(self, run: _OpenRun, event: Event, result: AgentResult, error: str | None = None) -> None:
        """End the run's span, after all in it that did not come to its own end."""
        text = event.content if isinstance(event, kinds.Error) else ""
        self._open.pop(event.metadata["run_id"], None)
        self._chat_ended(run, error, text)
        for span in run.tools.values():
            self._end(span, error)
        attributes: Attributes = {"nbagent.status": result.status, **used(run.usage)}
        if result.cost is not None:
            attributes["nbagent.cost_usd"] = result.cost
        if result.finish_reason:
            attributes["gen_ai.response.finish_reasons"] = [result.finish_reason]
        if self.capture_content and result.content:
            answer = LLMResponse(result.content, finish_reason=result.finish_reason)
            attributes["gen_ai.output.messages"] = json_text(answer_form(answer))
        run.span.set_attributes(attributes)
        self._end(run.span, error, text)

    def _start(self, operation: str, of: str | None, kind: SpanKind, parent: Span, attributes: Attributes) -> Span:
        named = {"gen_ai.operation.name": operation, **attributes}
        where = trace.set_span_in_context(parent)
        return self._tracer.start_span(f"{operation} {of}" if of else operation, where, kind, named)

    def _end(self, span: Span, error: str | None = None, text: str = "") -> None:
        """An error's own text may quote what was said."""
        if error:
            span.set_attribute("error.type", error)
            span.set_status(Status(StatusCode.ERROR, text if self.capture_content and text else None))
        span.end()


def _measured(chat: _Chat) -> Attributes:
    return {name: chat.attributes[name] for name in MEASURED_BY if name in chat.attributes}


_HANDLERS: dict[str, Callable[[Telemetry, _OpenRun, Any], None]] = {
    "turn_started": Telemetry._turn_started,
    "thinking": Telemetry._piece,
    "text": Telemetry._piece,
    "tool_call_delta": Telemetry._piece,
    "retry": Telemetry._retried,
    "turn_done": Telemetry._turn_done,
    "tool_started": Telemetry._tool_started,
    "approval": Telemetry._approved,
    "tool_result": Telemetry._tool_result,
    "limit": Telemetry._limited,
    "done": Telemetry._done,
    "error": Telemetry._failed,
    "interrupted": Telemetry._interrupted,
}
