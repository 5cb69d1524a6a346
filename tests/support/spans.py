"""The spans and metrics of OpenTelemetry, collected in memory."""

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


class Collected:
    def __init__(self):
        self._spans, self._metrics = InMemorySpanExporter(), InMemoryMetricReader()
        self.tracers, self.meters = TracerProvider(shutdown_on_exit=False), MeterProvider([self._metrics])
        self.tracers.add_span_processor(SimpleSpanProcessor(self._spans))

    def follow(self, agent, **options):
        agent.trace.to_otel(tracer_provider=self.tracers, meter_provider=self.meters, **options)
        return agent

    @property
    def spans(self):
        """In the order in which they began."""
        return sorted(self._spans.get_finished_spans(), key=lambda span: span.start_time)

    def named(self, name):
        (span,) = [span for span in self.spans if span.name == name]
        return span

    def tree(self):
        """The names of the spans, each below its parent."""
        below = {}
        for span in self.spans:
            below.setdefault(span.parent.span_id if span.parent else None, []).append(span)

        def branch(of):
            return [(each.name, branch(each.context.span_id)) for each in below.get(of, [])]

        return branch(None)

    def points(self, name):
        """The points of a metric: attributes, sum, count and bounds."""
        data = self._metrics.get_metrics_data()
        resources = data.resource_metrics if data else []  # None if nothing was measured
        found = [m for r in resources for s in r.scope_metrics for m in s.metrics if m.name == name]
        return [(dict(p.attributes), p.sum, p.count, p.explicit_bounds) for m in found for p in m.data.data_points]

    def everything(self):
        return "".join(span.to_json() for span in self.spans)
