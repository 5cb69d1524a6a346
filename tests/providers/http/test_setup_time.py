"""Imports, certificates and connecting count as `setup_s`; what the vendor takes is `ttft_s` and `duration_s`."""

import time

import pytest
from support.loopback import Answer, claude_said, said, sse

from nbagent import Agent
from nbagent.providers.http import client as http_client
from nbagent.providers.http.transport import import_packages

SLOW_S = 0.2


@pytest.fixture
def slow_to_connect(monkeypatch):
    made = http_client._probed_socket
    monkeypatch.setattr(http_client, "_probed_socket", lambda address: (time.sleep(SLOW_S), made(address))[1])


@pytest.fixture(autouse=True)
def imported():
    """Imports are no part of what is measured here."""
    for package in ("httpx2", "openai", "anthropic"):
        import_packages(package)


async def asked(agent):
    """The row of a call, and the seconds that passed around it."""
    begun = time.time()
    await agent.chat("hi")
    return agent.trace.calls.iloc[-1], time.time() - begun


@pytest.mark.parametrize("vendor", ["open_source", "claude"])
async def test_only_the_first_request_is_set_up_and_its_time_to_the_first_token_leaves_that_out(
    loopback, connect, slow_to_connect, vendor
):
    loopback.answers = [Answer(claude_said("Yes.") if vendor == "claude" else sse(said("Yes.")))]
    agent = Agent(connect(vendor))
    first, passed = await asked(agent)
    second, _ = await asked(agent)
    assert first["setup_s"] >= SLOW_S
    assert first["setup_s"] + first["ttft_s"] <= first["setup_s"] + first["duration_s"] <= passed
    assert (first["started"] - first["ts"]).total_seconds() == pytest.approx(first["setup_s"], abs=1e-5)
    assert second["setup_s"] < SLOW_S
