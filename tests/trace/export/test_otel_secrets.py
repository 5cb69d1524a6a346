"""A key that a server repeats reaches no collector: no attribute, event or status of a span, and no metric."""

import asyncio
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from support.loopback import Answer, Loopback
from support.repeated_keys import ERRORS, KEY, PLACES, SPELLINGS
from support.secret_forms import assert_clean

from nbagent import Agent, create_provider

MESSAGES = {"/v1/traces": ExportTraceServiceRequest, "/v1/metrics": ExportMetricsServiceRequest}
TEXT = " and ".join(SPELLINGS.values())
#: Pieces are put together before a span hears of them, and an answer's other parts are no attribute of it.
SPAN_PLACES = ("text", "thinking", "model", "argument", "name of a tool", "id of a call")
ANSWERS = {place: Answer(PLACES[place](TEXT)) for place in SPAN_PLACES} | {
    place: Answer(body, status) for place, write in ERRORS.items() for status, body in [write(TEXT)] if place != "page"
}


def texts(value):
    """All texts in a decoded message, names too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, item in value.items():
            yield name
            yield from texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from texts(item)


def f(a: Any = None) -> str:
    """The model calls this tool with the key, and it fails with it."""
    raise ValueError(f"not found: {a}")


@pytest.mark.parametrize("place", ANSWERS)
async def test_no_collector_gets_a_key(place):
    async with Loopback() as server, Loopback() as collector:
        server.answers = [ANSWERS[place]]
        collector.answers = [Answer(b"", headers={"content-type": "application/x-protobuf"})]
        provider = create_provider("open_source", base_url=f"{server.url}/v1", model="m", api_key=KEY, max_retries=0)
        agent = Agent(provider, tools=[f])
        telemetry = agent.trace.to_otel(collector.url, capture_content=True)
        [event async for event in agent.chat_stream("hi", max_iterations=2, raise_errors=False)]
        await asyncio.to_thread(telemetry.stop)
        await provider.aclose()
        decoded = [MessageToDict(MESSAGES[request.path].FromString(request.body)) for request in collector.requests]
    told = "\n".join(texts(decoded))
    assert "invoke_agent" in told
    assert "chat m" in told
    assert "$OPEN_SOURCE_API_KEY" in told or "***" in told
    assert_clean(told, KEY)
