"""`agent.stop()`: from any thread, whatever the run is doing, whoever waits for it."""

import asyncio
import threading

import pytest

from nbagent import Agent, LLMProvider, LLMResponse, ScriptedProvider
from nbagent.core.events import Text


class Endless(LLMProvider):
    """Says one word and then nothing more; `said` tells when."""

    vendor, model_name = "scripted", "endless"

    def __init__(self):
        self.said = threading.Event()

    async def chat(self, messages, functions=None, temperature=None, **kwargs):
        raise AssertionError

    async def stream(self, request):
        try:
            yield Text("begun")
            self.said.set()
            await asyncio.sleep(3600)
            yield LLMResponse("begun")
        finally:
            await asyncio.sleep(0.05)  # as closing a connection takes its time


def in_thread(function):
    """Run it in a thread; `wait()` gives what it returned or raised."""
    outcome = []

    def run():
        try:
            outcome.append(function())
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=run)
    thread.start()

    def wait():
        thread.join(300)
        assert not thread.is_alive()
        return outcome[0]

    return wait


def test_a_blocking_call_of_another_thread():
    agent = Agent(Endless())
    assert agent.stop() == 0
    wait = in_thread(lambda: agent.chat_sync("x"))
    assert agent.provider.said.wait(300)
    assert agent.stop() == 1
    assert isinstance(wait(), asyncio.CancelledError)
    assert [message.text for message in agent.conversation_history] == ["x", "begun"]
    assert agent.trace.runs["status"].tolist() == ["interrupted"]
    assert agent.stop() == 0
    agent.provider = ScriptedProvider(["fine"])
    assert agent.chat_sync("y").content == "fine"


def test_a_plain_for_ends_between_two_events():
    agent = Agent(Endless())
    stream = agent.chat_stream("x")
    seen = []
    for event in stream:
        seen.append(event.type)
        if event.type == "text":
            assert agent.stop() == 1
    assert seen[-1] == "text"
    with pytest.raises(asyncio.CancelledError, match="the run was stopped"):
        stream.result()
    assert agent.trace.runs["status"].tolist() == ["interrupted"]


async def test_runs_that_wait_for_their_turn_are_not_asked():
    agent = Agent(Endless())
    tasks = [asyncio.create_task(agent.chat(text)) for text in "abc"]
    while not agent.provider.said.is_set():
        await asyncio.sleep(0.01)
    assert agent.stop() == 3
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(result) for result in results] == [asyncio.CancelledError] * 3
    assert [message.text for message in agent.conversation_history] == ["a", "begun"]
    agent.provider = ScriptedProvider(["fine"])
    assert (await asyncio.wait_for(agent.chat("d"), 60)).content == "fine", "those that waited left the queue"


def test_what_is_over_is_not_stopped():
    agent = Agent(ScriptedProvider(["a", RuntimeError("b")]))
    kept = agent.chat_stream("x")
    assert [event.type for event in kept][-1] == "done"
    failed = agent.chat_stream("y", raise_errors=False)
    assert [event.type for event in failed][-1] == "error"
    unused = agent.chat_stream("z")
    assert agent.stop() == 0
    assert kept.result().content == "a"
    assert not unused.stop()


def test_tools_that_are_off_are_off_in_forks_too():
    def f() -> str: ...
    def g() -> str: ...

    agent = Agent(ScriptedProvider(lambda messages, functions: str([f["name"] for f in functions or []])), tools=[f, g])
    agent.tools_off.add("f")
    other = agent.fork()
    agent.tools_off.add("g")
    assert agent.chat_sync("x").content == "[]"
    assert other.chat_sync("x").content == "['g']"
    assert agent.chat_sync("x", tools=["f"]).content == "['f']"
    assert other.chat_sync("x", use_tools=False).content == "[]"
    assert "0 tools" in repr(agent)
    assert other.offered_tools() == ["g"]
