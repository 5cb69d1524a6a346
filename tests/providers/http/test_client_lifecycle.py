"""Connections live and die with their event loop: nothing stays open, nothing is printed at exit, nothing hangs."""

import asyncio
import gc
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from support.loopback import Answer, claude_said, read_request, said, served_by, sse
from support.requests import streamed

from nbagent import Agent
from nbagent.core.events import Retry
from nbagent.core.messages import LLMMessage
from nbagent.errors import ProviderTimeoutError
from nbagent.providers import create_provider
from nbagent.providers.http import client as transport
from nbagent.providers.http import retry

HI = [LLMMessage("user", "hi")]
PROVIDERS = ["open_source", "openai", "claude"]


def good(provider, text="Good.") -> Answer:
    return Answer(claude_said(text) if provider == "claude" else sse(said(text)))


# ------------------------------------------------------------------ scripts

PRELUDE = """
import asyncio, gc, logging, os, sys, warnings
logging.getLogger("asyncio").setLevel("ERROR")  # its debug mode tells of slow callbacks too
from nbagent import Agent, create_provider

def new_agent():
    provider, url = sys.argv[1:]
    return Agent(create_provider(provider, api_key="k", model="m1", base_url=url))

def open_sockets():
    places = [os.path.join("/proc/self/fd", name) for name in os.listdir("/proc/self/fd")]
    return sum(os.path.exists(place) and os.readlink(place).startswith("socket:") for place in places)

def say(*words):
    print(*words, flush=True)
"""

SCRIPTS = {
    "one agent in several runs": """
        agent = new_agent()
        for _ in range(3):
            say(asyncio.run(agent.chat("hi")).content, open_sockets())
    """,
    "a stream that is left": """
        async def main():
            async for event in new_agent().chat_stream("hi"):
                if event["type"] == "text":
                    return event["content"]
        for _ in range(3):
            say(asyncio.run(main()), open_sockets())
    """,
    "a loop of one's own, shut down": """
        agent = new_agent()
        for _ in range(3):
            loop = asyncio.new_event_loop()
            content = loop.run_until_complete(agent.chat("hi")).content
            loop.run_until_complete(loop.shutdown_asyncgens())
            say(content, open_sockets() - 2)  # the loop's own pair
            loop.close()
    """,
    "a loop of one's own, just closed": """
        agent = new_agent()
        with warnings.catch_warnings(action="ignore"):  # aiohttp complains of a session that nobody closed
            logging.getLogger("asyncio").disabled = True
            for _ in range(4):
                loop = asyncio.new_event_loop()
                content = loop.run_until_complete(agent.chat("hi")).content
                loop.close()
                gc.collect()
                if _:
                    say(content, open_sockets() - 1)  # the last loop's; an earlier one's are collected with it
            del agent, loop
            gc.collect()
            assert not open_sockets()
            logging.getLogger("asyncio").disabled = False
    """,
    # these two come last, since they share a background loop that runs until the end
    "blocking": """
        agent = new_agent()
        for _ in range(3):
            say(agent.chat_sync("hi").content, 0)
    """,
    "a stream in a plain for, left": """
        agent = new_agent()
        for _ in range(3):
            for event in agent.chat_stream("hi"):
                if event["type"] == "text":
                    say(event["content"], 0)
                    break
    """,
}


async def run_scripts(provider, url):
    """Run all scripts in an interpreter that treats warnings as errors, and return its output and errors."""
    one = "say({name!r})\nexec({code!r}, dict(globals()))\ngc.collect()\n"
    scripts = "".join(one.format(name=name, code=textwrap.dedent(text)) for name, text in SCRIPTS.items())
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-X", "dev", "-W", "error", "-c", PRELUDE + scripts, provider, url),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])},
    )
    output, complaints = await process.communicate()
    return output.decode(), complaints.decode()


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="counts sockets as Linux shows them")
@pytest.mark.parametrize("provider", ["open_source", "openai", pytest.param("claude", marks=pytest.mark.full)])
async def test_scripts_leave_nothing_open_and_end_silently(loopback, provider):
    loopback.answers = [good(provider)]
    url = loopback.url + ("" if provider == "claude" else "/v1")
    output, complaints = await run_scripts(provider, url)
    assert complaints == ""
    assert output == "".join(f"{name}\n" + "Good. 0\n" * 3 for name in SCRIPTS)


# ------------------------------------------------------------------ long-lived loops


async def all_gone(server):
    """Wait until every client has closed its connection."""
    gc.collect()
    async with asyncio.timeout(60):
        while server.open:
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_dropped_agents_free_their_sockets(loopback, provider):
    """As in a notebook, whose loop keeps running: one agent after another."""
    loopback.answers = [good(provider)]
    url = loopback.url + ("" if provider == "claude" else "/v1")
    for _ in range(20):
        agent = Agent(create_provider(provider, api_key="k", model="m1", base_url=url))
        assert (await agent.chat("hi")).content == "Good."
        cycle = [agent]
        cycle.append(cycle)  # such as an exception and its frames: the garbage collector finds it
        del agent, cycle
    assert loopback.connections == 20
    await all_gone(loopback)


async def test_aclose_closes_and_the_next_request_reopens(loopback):
    loopback.answers = [good("open_source")]
    provider = create_provider("open_source", model="m1", base_url=f"{loopback.url}/v1")
    for _ in range(2):
        await provider.chat(HI)
        await provider.aclose()
        await all_gone(loopback)
    assert loopback.connections == 2


# ------------------------------------------------------------------ kept connections


async def test_concurrent_requests_have_their_own_connections_which_are_kept(loopback, connect):
    loopback.answers = [good("open_source")]
    provider = connect()
    for _ in range(3):
        await asyncio.gather(*(provider.chat(HI) for _ in range(32)))
    assert loopback.connections <= 32
    assert len(loopback.requests) == 96


@pytest.mark.parametrize("provider_name", PROVIDERS)
async def test_a_connection_closed_while_idle_causes_no_error(provider_name, connect, monkeypatch):
    """Neither a visible retry nor a wait."""
    monkeypatch.setattr(retry, "FIRST_WAIT_S", 1000)
    answer, seen = good(provider_name).body, []

    async def serve(reader, writer):
        seen.append(await read_request(reader))
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(answer) + answer)
        await writer.drain()

    async with served_by(serve) as address:
        provider = connect(provider_name, base_url=f"http://{address}")
        for _ in range(3):
            items = [item async for item in streamed(provider, HI)]
            assert not [item for item in items if isinstance(item, Retry)]
            assert items[-1].content == "Good."
            await asyncio.sleep(0.05)
    assert len(seen) == 3


# ------------------------------------------------------------------ time limits


@pytest.mark.full
@pytest.mark.parametrize("provider", PROVIDERS[:2])
async def test_the_timeout_applies_to_each_gap_not_to_the_whole_answer(connect, provider):
    body = good(provider).body
    pieces = [body[start : start + len(body) // 12 + 1] for start in range(0, len(body), len(body) // 12 + 1)]

    async def dribble(reader, writer):
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body))
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(1)

    async with served_by(dribble) as address:
        started = asyncio.get_running_loop().time()
        answer = await connect(provider, base_url=f"http://{address}", timeout=9, max_retries=0).chat(HI)
        assert answer.content == "Good."
        assert asyncio.get_running_loop().time() - started > 9


@pytest.mark.parametrize("provider", PROVIDERS[:2])
async def test_connecting_has_its_own_timeout(connect, provider, monkeypatch):
    """A TLS server that never responds: connecting times out long before reading would."""
    monkeypatch.setattr(transport, "CONNECT_TIMEOUT_S", 0.2)

    async def silent(reader, _):
        await reader.read()

    async with served_by(silent) as address:
        url = f"https://{address}"
        with pytest.raises(ProviderTimeoutError):
            await connect(provider, base_url=url, timeout=1000, max_retries=0).chat(HI)
        with pytest.raises(ProviderTimeoutError):  # and what is shorter holds for connecting too
            await connect(provider, base_url=url, timeout=0.1, max_retries=0).chat(HI)
