"""Where spans and metrics go: to what the process has set up for OpenTelemetry, or to a collector named by address."""

from __future__ import annotations

import os
from typing import Any

from opentelemetry import metrics, trace
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import TracerProvider

from nbagent.errors import ConfigurationError, MissingDependencyError
from nbagent.trace.export.otel import Observer, Telemetry

#: The environment variable that asks for what was said, and the values that ask for it on spans.
CAPTURE_VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
CAPTURING = ("true", "span_only", "span_and_event")
#: How long a collector that does not answer is asked, if OTEL_EXPORTER_OTLP_TIMEOUT does not say; `stop` waits for it.
TIMEOUT_S = 2.0


def begin(
    observers: list[Observer],
    endpoint: str | None,
    capture_content: bool | None,
    tracer_provider: TracerProvider | None,
    meter_provider: MeterProvider | None,
) -> Telemetry:
    """See `Trace.to_otel`. What was begun with these observers before ends; what a fork has of its origin ends here."""
    if endpoint and (tracer_provider or meter_provider):
        raise ConfigurationError("give endpoint or providers, not both: providers know where they send to")
    if capture_content is None:
        capture_content = os.environ.get(CAPTURE_VARIABLE, "").lower() in CAPTURING
    own: list[Any] = []
    if not (tracer_provider or meter_provider):
        endpoint = endpoint or _endpoint_of_environment()
        if endpoint:
            tracer_provider, meter_provider = own[:] = _providers(endpoint)

    def shutdown() -> None:
        while own:
            own.pop().shutdown()

    for earlier in [each for each in observers if isinstance(each, Telemetry)]:
        if earlier.observers is observers:
            earlier.stop()
        else:
            observers.remove(earlier)
    telemetry = Telemetry(
        tracer_provider or trace.get_tracer_provider(),
        meter_provider or metrics.get_meter_provider(),
        capture_content,
        observers,
        shutdown,
    )
    observers.append(telemetry)
    return telemetry


def _endpoint_of_environment() -> str | None:
    """The collector named by the environment, where the process has set up no OpenTelemetry of its own."""
    if not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        return None
    if endpoint := os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT"):
        return endpoint
    raise ConfigurationError(
        "no OpenTelemetry is set up in this process: name a collector, trace.to_otel('http://localhost:4318'), or "
        "set a tracer provider first"
    )


def _providers(endpoint: str) -> tuple[Any, Any]:
    """Providers that send to a collector over OTLP/HTTP, in batches, from a thread."""
    try:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.metrics import MeterProvider as Meters
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider as Tracers
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        raise MissingDependencyError("sending to a collector needs pip install 'nbagent[otel]'") from None
    base = endpoint.rstrip("/").removesuffix("/v1/traces")
    if not base.startswith(("http://", "https://")):
        raise ConfigurationError(f"{endpoint!r} is no address of a collector: give one such as 'http://localhost:4318'")
    timeout = float(os.environ.get("OTEL_EXPORTER_OTLP_TIMEOUT", TIMEOUT_S))
    resource = Resource.create({"service.name": os.environ.get("OTEL_SERVICE_NAME", "nbagent")})
    tracers = Tracers(resource=resource)
    tracers.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{base}/v1/traces", timeout=timeout)))
    readers = []
    if os.environ.get("OTEL_METRICS_EXPORTER") != "none":
        readers.append(PeriodicExportingMetricReader(OTLPMetricExporter(f"{base}/v1/metrics", timeout=timeout)))
    return tracers, Meters(readers, resource=resource)
