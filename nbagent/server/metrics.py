"""Metrics for Prometheus. They name routes, statuses and models, but no access tokens, people or conversations."""

from __future__ import annotations

import os
from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
from starlette.types import Scope

from nbagent.server.hosted_run import HostedRun

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
#: The variable with the folder in which a server's processes share their metrics.
PROCESSES_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
#: Metrics for admins only.
_COSTS = {"nbagent_tokens", "nbagent_cost_dollars"}
_METHODS = {"GET", "POST", "DELETE", "PUT", "PATCH", "HEAD", "OPTIONS"}
_SECONDS = (0.01, 0.05, 0.1, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)


class Metrics:
    """The metrics of a server, summed over its processes."""

    def __init__(self) -> None:
        own = self._registry = CollectorRegistry()
        route = ("method", "route", "status")
        self._requests = Counter("nbagent_http_requests", "Requests.", route, registry=own)
        self._seconds = Histogram(
            "nbagent_http_request_duration_seconds", "Time of a request.", route[:2], registry=own, buckets=_SECONDS
        )
        model = ("model",)
        self._runs = Counter("nbagent_runs", "Runs of the agent by how they ended.", ("model", "status"), registry=own)
        self._tokens = Counter("nbagent_tokens", "Tokens of input and output.", ("model", "kind"), registry=own)
        self._dollars = Counter("nbagent_cost_dollars", "Cost, where a price is known.", model, registry=own)
        self._tool_calls = Counter("nbagent_tool_calls", "Calls to tools.", ("failed",), registry=own)
        self._running = Gauge("nbagent_runs_running", "Current runs.", registry=own, multiprocess_mode="livesum")

    def run_began(self) -> None:
        """Count a run that has started."""
        self._running.inc()

    def run_ended(self, run: HostedRun) -> None:
        """Count a run that has ended, successfully or not."""
        model = f"{run.provider}:{run.model}"
        self._running.dec()
        unfinished = "cancelled" if run.error is None else "error"
        self._runs.labels(model, run.result.status if run.result is not None else unfinished).inc()
        self._tokens.labels(model, "input").inc(run.account.usage.input_tokens)
        self._tokens.labels(model, "output").inc(run.account.usage.output_tokens)
        self._dollars.labels(model).inc(run.account.dollars)
        for event in run.tool_results:
            self._tool_calls.labels(str(event.metadata["is_error"]).lower()).inc()

    def text(self, with_costs: bool) -> bytes:
        """Return the metrics in Prometheus' format, with everybody's token counts and costs if `with_costs` is true."""
        registry = self._registry
        if PROCESSES_VARIABLE in os.environ:
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]  # the library gives it no types
        return generate_latest(registry if with_costs else _WithoutCosts(registry))

    def count_request(self, scope: Scope, status: int, seconds: float) -> None:
        """Count a request."""
        method = scope["method"] if scope["method"] in _METHODS else "other"
        route = getattr(scope.get("route"), "path", "other")  # an unknown path may be anything
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(method, route).observe(seconds)


class _WithoutCosts(CollectorRegistry):
    """Another registry's metrics without tokens and costs."""

    def __init__(self, whole: CollectorRegistry) -> None:
        super().__init__()
        self._whole = whole

    def collect(self) -> Iterable[Metric]:
        """Return the other metrics."""
        return (metric for metric in self._whole.collect() if metric.name not in _COSTS)
