"""Imports, certificates and connecting count as `setup_s`; what the vendor takes is `ttft_s` and `duration_s`."""

import time

import anyio
import httpx2
import pytest
from support.loopback import Answer, Loopback, claude_said, said, sse

from nbagent import Agent
from nbagent.providers import create_provider
from nbagent.providers.http import client as http_client
from nbagent.providers.http.transport import import_packages

SLOW_S = 0.2


@pytest.fixture
def slow_to_connect(monkeypatch):
    made = http_client._probed_socket
    monkeypatch.setattr(http_client, "_probed_socket", lambda address: (time.sleep(SLOW_S), made(address))[1])
    connect = anyio.connect_tcp  # that of httpx's own transports
    monkeypatch.setattr(
        anyio, "connect_tcp", lambda *args, **options: (time.sleep(SLOW_S), connect(*args, **options))[1]
    )


@pytest.fixture
def slow_to_make(monkeypatch):
    make = http_client.new_http_client
    monkeypatch.setattr(http_client, "new_http_client", lambda target: (time.sleep(SLOW_S), make(target))[1])


@pytest.fixture(autouse=True)
def imported():
    """Imports are no part of what is measured here."""
    for package in ("httpx2", "openai", "anthropic"):
        import_packages(package)


def agent_at(server, vendor="open_source", **options):
    return Agent(create_provider(vendor, api_key="k", model="m1", base_url=server.url, **options))


async def asked(agent):
    """The row of a call, and the seconds that passed around it."""
    begun = time.time()
    await agent.chat("hi")
    return agent.trace.calls.iloc[-1], time.time() - begun


@pytest.mark.parametrize(
    ("slow", "vendor"), [("slow_to_connect", "open_source"), ("slow_to_make", "openai"), ("slow_to_connect", "claude")]
)
async def test_only_the_first_request_is_set_up_and_its_time_to_the_first_token_leaves_that_out(slow, vendor, request):
    request.getfixturevalue(slow)
    async with Loopback() as server:
        server.answers.append(Answer(claude_said("Yes.") if vendor == "claude" else sse(said("Yes."))))
        agent = agent_at(server, vendor)
        first, passed = await asked(agent)
        second, _ = await asked(agent)
    check(first, second, passed)


def check(first, second, passed):
    """Connecting took time, once, and is in no other column."""
    assert first["setup_s"] >= SLOW_S
    assert first["setup_s"] + first["ttft_s"] <= first["setup_s"] + first["duration_s"] <= passed
    assert (first["started"] - first["ts"]).total_seconds() == pytest.approx(first["setup_s"], abs=1e-5)
    assert second["setup_s"] < SLOW_S


async def test_connecting_to_a_proxy_is_set_up(slow_to_connect, monkeypatch):
    async with Loopback() as server:  # it answers for the vendor, as a proxy would
        server.answers.append(Answer(sse(said("Yes."))))
        monkeypatch.setenv("HTTP_PROXY", server.url)
        agent = Agent(create_provider("open_source", api_key="k", model="m1", base_url="http://vendor.test"))
        first, passed = await asked(agent)
        second, _ = await asked(agent)
        await agent.aclose()
    assert server.connections == 1
    check(first, second, passed)


async def test_connecting_with_a_client_of_ones_own_is_set_up(slow_to_connect):
    async with Loopback() as server, httpx2.AsyncClient() as client:
        server.answers.append(Answer(sse(said("Yes."))))
        agent = agent_at(server, client=client)
        first, passed = await asked(agent)
        second, _ = await asked(agent)
    check(first, second, passed)
