"""A key that a server repeats reaches no collector: no attribute, event or status of a span, and no metric."""

import asyncio
import json
from typing import Any

import pytest
from support.loopback import Answer, Loopback, said, sse
from support.repeated_keys import KEY, called
from support.secret_forms import assert_clean

from nbagent import Agent, create_provider
from nbagent.errors import AuthenticationError


def fail_with(a: Any = None) -> str:
    """The model calls this tool with the key, and it fails with it."""
    raise ValueError(f"not found: {a}")


async def test_no_collector_gets_a_key_that_a_server_repeats():
    async with Loopback() as server, Loopback() as collector:
        argument = sse(called(json.dumps({"a": [{KEY: KEY}]}), "fail_with"), said("", "tool_calls"))
        refusal = json.dumps({"error": {"message": f"Wrong key {KEY}", "code": KEY}}).encode()
        server.answers = [Answer(argument), Answer(sse(said(f"It is {KEY}."))), Answer(refusal, 401)]
        collector.answers = [Answer(b"", headers={"content-type": "application/x-protobuf"})]
        provider = create_provider("open_source", base_url=f"{server.url}/v1", model="m", api_key=KEY)
        agent = Agent(provider, tools=[fail_with])
        telemetry = agent.trace.to_otel(collector.url, capture_content=True)
        await agent.chat("hi")
        with pytest.raises(AuthenticationError):
            await agent.chat("and now")
        await asyncio.to_thread(telemetry.stop)
        await provider.aclose()
    told = b"".join(request.body for request in collector.requests).decode("utf-8", "replace")
    assert "execute_tool fail_with" in told
    assert "$OPEN_SOURCE_API_KEY" in told
    assert_clean(told, KEY)
