"""Sends agents' runs to OpenTelemetry as spans and metrics, for `Trace.to_otel`. The names of attributes and metrics
are in `otel_attributes`.

There are three kinds of span:

- `invoke_agent`: a run. Its span is the parent of the run's other spans.
- `chat`: a request to the model. Each retry is an event of the span. The span is current while the provider's code
  runs, so the spans of HTTP requests are its children.
- `execute_tool`: a tool call. The span is current while the tool runs, so the tool's own spans and the agent runs that
  the tool starts are its children.

The span of a replayed answer is marked `nbagent.replayed`. The answer cost no money and no time, so its token counts
are 0 and the metrics don't include it. Only `chat` spans have a model and the token counts that backends add up; a
run's totals have other names.

The texts of messages and errors are omitted unless the user asks for them, and so are the definitions, arguments and
results of tools. However, the span of a tool call always has the tool's description (its docstring).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from time import perf_counter
from typing import Any, NamedTuple, Protocol

from opentelemetry import context as contexts
from opentelemetry import metrics, propagate
from opentelemetry import trace as otel
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, TracerProvider

from nbagent.checks import invalid
from nbagent.core import events as kinds
from nbagent.core.events import Event
from nbagent.core.json_text import json_text
from nbagent.core.messages import LLMMessage, LLMResponse, Usage
from nbagent.core.model_request import ModelRequest
from nbagent.core.results import AgentResult
from nbagent.errors import ConfigurationError, missing_extra
from nbagent.trace.export import otel_attributes as names
from nbagent.trace.export.otel_attributes import Attributes, attributes_from, usage_attributes
from nbagent.trace.recorder import Recorder

#: The environment variable that requests message texts, and its values that request them on spans.
CAPTURE_VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
CAPTURING = ("true", "span_only", "span_and_event")
#: The timeout of a collector, also for `stop`, unless OTEL_EXPORTER_OTLP_TIMEOUT is set.
TIMEOUT_S = 2.0


class TraceLike(Protocol):
    """The part of a `Trace` that telemetry uses."""

    recorder: Recorder


#: Called with a trace and each event of its runs.
Observer = Callable[[Any, Event], None]


def start_telemetry(
    observers: list[Observer],
    endpoint: str | None,
    capture_content: bool | None,
    tracer_provider: TracerProvider | None,
    meter_provider: MeterProvider | None,
) -> Telemetry:
    """See `Trace.to_otel`. Replaces the trace's earlier telemetry.

    Telemetry that a fork inherited continues in the original agent.
    """
    if endpoint and (tracer_provider or meter_provider):
        raise ConfigurationError("pass either endpoint or providers, not both, since providers have their own endpoint")
    if capture_content is None:
        capture_content = os.environ.get(CAPTURE_VARIABLE, "").lower() in CAPTURING
    own: list[Any] = []
    if not (tracer_provider or meter_provider):
        endpoint = endpoint or _endpoint_from_environment()
        if endpoint:
            tracer_provider, meter_provider = own[:] = _providers(endpoint)
    for earlier in [observer for observer in observers if isinstance(observer, Telemetry)]:
        if earlier.observers is observers:
            earlier.stop()
        else:
            observers.remove(earlier)
    tracers, meters = tracer_provider or otel.get_tracer_provider(), meter_provider or metrics.get_meter_provider()
    telemetry = Telemetry(tracers, meters, capture_content, observers, own)
    observers.append(telemetry)
    return telemetry


def _endpoint_from_environment() -> str | None:
    """The collector's address from the environment, or None if the process has set up OpenTelemetry itself."""
    if not isinstance(otel.get_tracer_provider(), otel.ProxyTracerProvider):
        return None
    if endpoint := os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT"):
        return endpoint
    raise ConfigurationError(
        "OpenTelemetry is not set up in this process. Pass a collector's address, as in "
        "trace.to_otel('http://localhost:4318'), or set a tracer provider first."
    )


def _providers(endpoint: str) -> tuple[Any, Any]:
    """Create providers that send batches to a collector over OTLP/HTTP in a background thread."""
    try:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.metrics import MeterProvider as SdkMeterProvider
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider as SdkTracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        raise missing_extra("OpenTelemetry", "otel") from None
    base = endpoint.rstrip("/").removesuffix("/v1/traces")
    if not base.startswith(("http://", "https://")):
        raise invalid("endpoint", endpoint, "the address of a collector", "Example: 'http://localhost:4318'.")
    timeout = float(os.environ.get("OTEL_EXPORTER_OTLP_TIMEOUT", TIMEOUT_S))
    resource = Resource.create({"service.name": os.environ.get("OTEL_SERVICE_NAME", "nbagent")})
    tracers = SdkTracerProvider(resource=resource)
    tracers.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{base}/v1/traces", timeout=timeout)))
    readers = []
    if os.environ.get("OTEL_METRICS_EXPORTER") != "none":
        readers.append(PeriodicExportingMetricReader(OTLPMetricExporter(f"{base}/v1/metrics", timeout=timeout)))
    return tracers, SdkMeterProvider(readers, resource=resource)


@dataclass(slots=True)
class _Chat:
    """A model request in progress."""

    span: Span
    attributes: Attributes
    started: float = field(default_factory=perf_counter)
    #: When the current attempt was sent, and when its first piece arrived.
    sent: float = field(default_factory=perf_counter)
    first: float | None = None
    #: The usage of its attempts so far. Dollars are None if a price is unknown.
    usage: Usage = field(default_factory=Usage)
    cost: float | None = 0.0

    def metric_attributes(self) -> Attributes:
        return {name: self.attributes[name] for name in names.METRIC_ATTRIBUTES if name in self.attributes}


@dataclass(slots=True)
class _RunSpans:
    """A run in progress."""

    span: Span
    #: The id of the span that was current when the run started.
    outer_span_id: int
    recorder: Recorder
    conversation_id: str
    usage: Usage = field(default_factory=Usage)
    chat: _Chat | None = None
    #: The tool definitions in the current request.
    offered: Sequence[Mapping[str, Any]] = ()
    tools: dict[str, Span] = field(default_factory=dict)
    #: Whether each call so far was replayed.
    replayed: list[bool] = field(default_factory=list)


class ServerSpan(NamedTuple):
    """The span of a request that a server handles."""

    span: Span
    method: str

    def answered(self, route: str | None, status: int) -> None:
        """Record the route and the status of the response."""
        self.span.set_attribute("http.response.status_code", status)
        if route is not None:
            self.span.update_name(f"{self.method} {route}")
            self.span.set_attribute("http.route", route)
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            self.span.set_status(Status(StatusCode.ERROR))


class Telemetry:
    """Turns events into spans and metrics. `Trace.to_otel` creates it. Thread-safe.

    `stop()` ends it. If it was created with an endpoint, `stop()` also sends the remaining data.
    """

    def __init__(
        self,
        tracer_provider: TracerProvider,
        meter_provider: MeterProvider,
        capture_content: bool,
        observers: list[Observer],
        own_providers: list[Any],
    ) -> None:
        self.capture_content = capture_content
        #: The observers of the trace that started it. Those of forks also contain it.
        self.observers = observers
        self._tracer = tracer_provider.get_tracer("nbagent")
        meter = meter_provider.get_meter("nbagent")
        self._tokens, self._seconds, self._first_chunk = (
            meter.create_histogram(name, unit, description, explicit_bucket_boundaries_advisory=boundaries)
            for name, unit, description, boundaries in (names.TOKENS, names.SECONDS, names.FIRST_CHUNK)
        )
        self._own_providers = own_providers
        self._stopped = False
        self._open_runs: dict[str, _RunSpans] = {}

    def __call__(self, trace: TraceLike, event: Event) -> None:
        """Process an event of a run that `trace` records."""
        if isinstance(event, kinds.RunStarted):
            if not self._stopped:
                self._run_started(trace.recorder, event)
            return
        run, handler = self._open_runs.get(event.metadata["run_id"]), _HANDLERS.get(event.type)
        if run is not None and handler is not None:
            handler(self, run, event)

    @contextmanager
    def server_span(self, method: str, headers: Mapping[str, str]) -> Iterator[ServerSpan]:
        """Open the span of a request that a server handles, below the caller's span (`traceparent`).

        Runs that start in this block are children of the span.
        """
        attributes = {"http.request.method": method}
        caller = propagate.extract(headers)
        with self._tracer.start_as_current_span(method, caller, SpanKind.SERVER, attributes) as span:
            yield ServerSpan(span, method)

    def stop(self) -> None:
        """Ignore runs that start from now on, including runs of forks."""
        self._stopped = True
        if self in self.observers:
            self.observers.remove(self)
        while self._own_providers:
            self._own_providers.pop().shutdown()

    def __repr__(self) -> str:
        return f"<Telemetry to OpenTelemetry, {'with' if self.capture_content else 'without'} message texts>"

    def _run_started(self, recorder: Recorder, event: kinds.RunStarted) -> None:
        """Start a run's span, below the tool that started the run, or below that tool's run."""
        meta = event.metadata
        current = otel.get_current_span()
        current_id = current.get_span_context().span_id
        outer = self._open_runs.get(meta.get("parent_run_id") or "")
        parent = outer.span if outer is not None and outer.outer_span_id == current_id else current
        attributes = attributes_from(names.RUN, meta)
        if self.capture_content:
            attributes |= names.input_attributes(event.messages)
        span = self._start("invoke_agent", meta.get("agent"), SpanKind.INTERNAL, parent, attributes)
        self._open_runs[meta["run_id"]] = _RunSpans(span, current_id, recorder, meta["conversation_id"])

    def _on_turn_started(self, run: _RunSpans, event: kinds.TurnStarted) -> None:
        """Start the span and make it current. The event arrives in the context of the provider's code."""
        meta = event.metadata
        request = {"gen_ai.provider.name": names.PROVIDERS.get(meta["provider"], meta["provider"])}
        request |= attributes_from(names.REQUEST, meta)
        run.span.set_attribute("gen_ai.provider.name", request["gen_ai.provider.name"])
        attributes = request | attributes_from(names.OPTIONS, meta.get("params") or {})
        attributes["gen_ai.conversation.id"] = run.conversation_id
        if self.capture_content:
            sent = ModelRequest(list(event.messages), reminder=meta.get("reminder", ""))
            attributes |= names.input_attributes(sent.all_messages) | names.tool_attributes(event.tools)
        span = self._start("chat", meta.get("model"), SpanKind.CLIENT, run.span, attributes)
        run.chat, run.offered = _Chat(span, {"gen_ai.operation.name": "chat", **request}), event.tools
        contexts.attach(otel.set_span_in_context(span))
        if (context := span.get_span_context()).trace_flags.sampled:
            spans = (context, run.span.get_span_context())
            run.recorder.set_span_ids(meta["run_id"], *(otel.format_span_id(span.span_id) for span in spans))

    def _on_text(self, run: _RunSpans, event: Event) -> None:
        if run.chat is not None and run.chat.first is None:
            run.chat.first = perf_counter()

    _on_thinking = _on_tool_call_delta = _on_text

    def _on_retry(self, run: _RunSpans, event: Event) -> None:
        """Restart the time to the first chunk."""
        if run.chat is not None:
            run.chat.span.add_event("retry", attributes_from(names.RETRY, event.metadata))
            run.chat.sent, run.chat.first = perf_counter() + (event.metadata.get("wait_s") or 0.0), None
        if "next" in event.metadata:  # another model is used
            self._end_chat(run, False, event.metadata["error"], event.metadata["error_message"])

    def _on_usage(self, run: _RunSpans, event: kinds.UsageReport) -> None:
        """Count the usage of an incomplete answer. Complete ones are counted in `_on_turn_done`."""
        if run.chat is not None and not event.metadata["replayed"] and "input_tokens" in event.metadata:
            self._count(run, run.chat, event.usage, event.metadata["cost_usd"], is_estimated=True)

    def _count(self, run: _RunSpans, chat: _Chat, usage: Usage, cost: float | None, *, is_estimated: bool) -> None:
        """Add an attempt's usage."""
        chat.usage += usage
        run.usage += usage
        chat.cost = None if cost is None or chat.cost is None else chat.cost + cost
        attributes = usage_attributes(names.ANSWER, chat.usage)
        if chat.cost is not None:
            attributes |= dict.fromkeys(names.COST, chat.cost)
        chat.span.set_attributes(attributes)
        if is_estimated:
            for span in (chat.span, run.span):
                span.set_attribute("nbagent.usage_estimated", True)

    def _on_turn_done(self, run: _RunSpans, event: kinds.TurnDone) -> None:
        response, chat = event.response, run.chat
        if response is None or event.message is None or chat is None:
            return
        metadata = response.metadata or {}
        attributes = attributes_from(names.RESPONSE, metadata) | names.finish_reasons(response.finish_reason)
        if self.capture_content:
            attributes |= names.output_attributes(event.message, response.finish_reason, metadata.get("thinking"))
        chat.attributes |= attributes
        chat.span.set_attributes(attributes)
        is_replayed = bool(metadata.get("replayed"))
        if is_replayed:
            self._count(run, chat, Usage(), 0.0, is_estimated=False)
        else:
            cost = event.metadata["cost_usd"]
            self._count(run, chat, response.usage, cost, is_estimated=not response.is_counted)
            chat.span.set_attributes(self._measure(chat, response))
        self._end_chat(run, is_replayed)

    def _measure(self, chat: _Chat, response: LLMResponse) -> Attributes:
        """Record tokens and the time to the first chunk as metrics. Return attributes for the span."""
        about = chat.metric_attributes()
        if response.is_counted:
            for kind, count in (("input", response.usage.input_tokens), ("output", response.usage.output_tokens)):
                self._tokens.record(count, {"gen_ai.token.type": kind, **about})
        if chat.first is None or not chat.attributes.get("gen_ai.request.stream"):
            return {}
        seconds = max(0.0, chat.first - chat.sent)
        self._first_chunk.record(seconds, about)
        return {"gen_ai.response.time_to_first_chunk": seconds}

    def _end_chat(self, run: _RunSpans, is_replayed: bool, error: str | None = None, text: str = "") -> None:
        chat, run.chat = run.chat, None
        if chat is None:
            return
        run.replayed.append(is_replayed)
        chat.attributes |= {"error.type": error} if error else {}
        if is_replayed:
            chat.span.set_attribute("nbagent.replayed", True)
        else:
            self._seconds.record(perf_counter() - chat.started, chat.metric_attributes())
        self._end(chat.span, error, text)

    def _on_tool_started(self, run: _RunSpans, event: Event) -> None:
        """Start the span and make it current. The event arrives in the tool's context."""
        attributes = {"gen_ai.tool.name": event.tool_name or "", "gen_ai.tool.type": "function"}
        attributes |= attributes_from(names.TOOL, event.metadata)
        definition = next((tool for tool in run.offered if tool["name"] == event.tool_name), {})
        attributes |= attributes_from({"gen_ai.tool.description": "description"}, definition)
        if self.capture_content:
            attributes["gen_ai.tool.call.arguments"] = json_text(event.tool_arguments)
        span = self._start("execute_tool", event.tool_name, SpanKind.INTERNAL, run.span, attributes)
        run.tools[event.metadata["tool_call_id"]] = span
        contexts.attach(otel.set_span_in_context(span))

    def _on_approval(self, run: _RunSpans, event: Event) -> None:
        if span := run.tools.get(event.metadata["tool_call_id"]):
            span.set_attribute("nbagent.tool.approval", event.content)

    def _on_tool_result(self, run: _RunSpans, event: kinds.ToolResult) -> None:
        span, outcome = run.tools.pop(event.metadata["tool_call_id"], None), event.outcome
        if span is None or outcome is None:  # it did not start
            return
        if self.capture_content and not outcome.is_error:
            span.set_attribute("gen_ai.tool.call.result", event.content)
        unnamed = "interrupted" if outcome.interrupted else "_OTHER"
        error = (type(outcome.error).__name__ if outcome.error else unnamed) if outcome.is_error else None
        self._end(span, error, event.content)

    def _on_limit(self, run: _RunSpans, event: Event) -> None:
        run.span.set_attribute("nbagent.limit_reason", str(event.metadata.get("limit_reason")))

    def _on_done(self, run: _RunSpans, event: kinds.Done | kinds.Error | kinds.Interrupted) -> None:
        """End the run's span, after open spans below it."""
        error, text, is_replayed = None, "", False
        if isinstance(event, kinds.Done):
            result = event.result or AgentResult()
        elif isinstance(event, kinds.Interrupted):
            result, error = AgentResult(event.content, status="interrupted"), "interrupted"
        else:
            result = getattr(event.exception, "partial", None) or AgentResult(status="error")
            error, text = type(event.exception).__name__, event.content
            is_replayed = bool(getattr(event.exception, "replayed", None))
            if isinstance(status := getattr(event.exception, "status", None), int):
                for span in (run.span, run.chat.span if run.chat else run.span):
                    span.set_attribute("http.response.status_code", status)
        self._open_runs.pop(event.metadata["run_id"], None)
        self._end_chat(run, is_replayed, error, text)
        for span in run.tools.values():
            self._end(span, error)
        attributes: Attributes = {"nbagent.status": result.status, **usage_attributes(names.TOTAL, run.usage)}
        attributes |= names.finish_reasons(result.finish_reason)
        if run.replayed and all(run.replayed):
            attributes["nbagent.replayed"] = True
        elif not any(run.replayed) and result.cost is not None:
            attributes["nbagent.cost_usd"] = result.cost
        if self.capture_content and result.content:
            attributes |= names.output_attributes(LLMMessage("assistant", result.content), result.finish_reason)
        run.span.set_attributes(attributes)
        self._end(run.span, error, text)

    _on_error = _on_interrupted = _on_done

    def _start(self, operation: str, name: str | None, kind: SpanKind, parent: Span, attributes: Attributes) -> Span:
        attributes = {"gen_ai.operation.name": operation, **attributes}
        context = otel.set_span_in_context(parent)
        return self._tracer.start_span(f"{operation} {name}" if name else operation, context, kind, attributes)

    def _end(self, span: Span, error: str | None = None, text: str = "") -> None:
        """End a span. Error texts may quote messages, so they are treated like messages."""
        if error:
            span.set_attribute("error.type", error)
            span.set_status(Status(StatusCode.ERROR, text if self.capture_content and text else None))
        span.end()


#: `_on_<type>` handles events of that type.
_HANDLERS: dict[str, Callable[[Telemetry, _RunSpans, Any], None]] = {
    name.removeprefix("_on_"): method for name, method in vars(Telemetry).items() if name.startswith("_on_")
}
