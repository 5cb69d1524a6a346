"""How an agent's runs queue, stop and end, with a scripted model."""

import asyncio
import math
import threading
import time

import pytest
from support.small_agent import call

from nbagent import (
    Agent,
    FunctionCall,
    FunctionDefinition,
    FunctionRegistry,
    Limits,
    LLMProvider,
    LLMResponse,
    ScriptedProvider,
)
from nbagent.core.events import Text
from nbagent.errors import AgentBusyError


def test_main_thread_tools_run_on_the_main_thread_in_every_kind_of_call():
    registry = FunctionRegistry()
    registry.register("where", "Where am I?", lambda: threading.current_thread().name, main_thread=True)
    agent = Agent(ScriptedProvider([call("where"), "ok"] * 3), registry)
    asyncio.run(agent.chat("x"))
    agent.chat_sync("x")
    for _ in agent.chat_stream("x"):
        pass
    assert agent.trace.tool_calls["result_text"].tolist() == ["MainThread"] * 3


async def test_a_stream_closed_between_two_calls_leaves_no_tool_running():
    go_on, ran = asyncio.Event(), []

    async def slow(n: int) -> int:
        await go_on.wait()
        ran.append(n)
        return n

    calls = [call("slow", "c1", n=1), call("slow", "c2", n=2)]
    agent = Agent(ScriptedProvider([calls]), tools=[slow])
    async with agent.chat_stream("x") as stream:
        async for event in stream:
            if event.type == "tool_started" and event.tool_arguments == {"n": 2}:
                break
    go_on.set()
    await asyncio.sleep(0.05)
    assert ran == []


async def silent(messages=None, functions=None):
    """Waits."""
    await asyncio.sleep(600)


def blocked():
    """Waits in a thread."""
    time.sleep(600)


@pytest.mark.parametrize(
    ("turns", "tool"),
    [
        (silent, None),
        ([[FunctionCall("blocked"), FunctionCall("quick")]], blocked),
    ],
    ids=["silent model", "sync tool"],
)
async def test_a_runs_time_limit_ends_every_kind_of_wait(turns, tool):
    def quick():
        return 1

    tools = [FunctionDefinition(f.__name__, "", None, f, timeout=math.inf) for f in (tool, quick) if f]
    agent = Agent(ScriptedProvider(turns, delay=0.01), tools=tools, limits=Limits(max_seconds=0.5))
    result = await agent.chat("go")
    assert (result.status, result.limit_reason) == ("limit", "time")
    assert agent.trace.runs["status"].tolist() == ["limit"]
    assert [call["name"] for call in result.function_calls] == [definition.name for definition in tools if tool]
    assert list(agent.trace.messages["role"]) == [message.role for message in agent.conversation_history]
    agent.provider, agent.limits = ScriptedProvider("still here"), Limits()
    assert (await agent.chat("and now?")).content == "still here"


@pytest.mark.parametrize("blocking", [True, False])
async def test_calling_the_agent_from_its_own_tool_is_an_error_not_a_deadlock(blocking):
    def again_sync() -> str:
        return agent.chat_sync("inner").content

    async def again_async() -> str:
        return (await agent.chat("inner")).content

    tool = again_sync if blocking else again_async
    provider = ScriptedProvider([call(tool.__name__), "done"])
    agent = Agent(provider, tools=[tool])
    result = await asyncio.wait_for(agent.chat("outer"), 300)
    assert AgentBusyError.__name__ in provider.requests[1][0][-1].content
    assert result.content == "done"


def test_calling_the_agent_inside_a_plain_for_loop_over_its_events_is_an_error():
    agent = Agent(ScriptedProvider(["a b", "c"]))
    for event in agent.chat_stream("x"):
        if event.type == "text":
            with pytest.raises(AgentBusyError):
                agent.chat_sync("y")
    assert agent.chat_sync("z").content == "c"


async def test_a_blocking_call_waits_for_runs_on_other_event_loops():
    agent = Agent(ScriptedProvider(["a b c", "d e f", "g"], delay=0.01))
    others = [asyncio.create_task(asyncio.to_thread(agent.chat_sync, text)) for text in "xy"]
    while not agent.conversation_history:
        await asyncio.sleep(0.001)
    assert {agent.chat_sync("z").content, *[(await other).content for other in others]} == {"a b c", "d e f", "g"}


async def test_concurrent_prompts_to_a_new_agent_keep_their_order_and_share_one_provider(monkeypatch):
    made = []

    def slowly(spec):
        time.sleep(0.05)
        made.append(ScriptedProvider(lambda messages, _: messages[-1].text))
        return made[-1]

    monkeypatch.setattr("nbagent.agent.agent.resolve", slowly)
    agent = Agent()
    questions = [str(number) for number in range(9)]
    await asyncio.gather(*map(agent.chat, questions))
    assert [message.text for message in agent.conversation_history[::2]] == questions
    assert len(made) == 1


class Endless(LLMProvider):
    """Says one word and then nothing more. `said` is set after the word."""

    provider_name, model_name = "scripted", "endless"

    def __init__(self):
        self.said = threading.Event()

    async def chat(self, messages, functions=None, temperature=None, **kwargs):
        raise AssertionError

    async def stream(self, request):
        try:
            yield Text("started")
            self.said.set()
            await asyncio.sleep(3600)
            yield LLMResponse("started")
        finally:
            await asyncio.sleep(0.05)  # like closing a connection


def in_thread(function):
    """Run a function in a thread. `wait()` returns its result or raises its error."""
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


def test_stopping_a_blocking_call_in_another_thread():
    agent = Agent(Endless())
    assert agent.stop() == 0
    wait = in_thread(lambda: agent.chat_sync("x"))
    assert agent.provider.said.wait(300)
    assert agent.stop() == 1
    assert isinstance(wait(), asyncio.CancelledError)
    assert [message.text for message in agent.conversation_history] == ["x", "started"]
    assert agent.trace.runs["status"].tolist() == ["interrupted"]
    assert agent.stop() == 0
    agent.provider = ScriptedProvider(["fine"])
    assert agent.chat_sync("y").content == "fine"


def test_stopping_a_plain_for_loop_between_two_events():
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


async def test_stopping_queued_runs_sends_nothing():
    agent = Agent(Endless())
    tasks = [asyncio.create_task(agent.chat(text)) for text in "abc"]
    while not agent.provider.said.is_set():
        await asyncio.sleep(0.01)
    assert agent.stop() == 3
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(result) for result in results] == [asyncio.CancelledError] * 3
    assert [message.text for message in agent.conversation_history] == ["a", "started"]
    agent.provider = ScriptedProvider(["fine"])
    assert (await asyncio.wait_for(agent.chat("d"), 60)).content == "fine", "waiting runs left the queue"


def test_finished_runs_are_not_stopped():
    agent = Agent(ScriptedProvider(["a", RuntimeError("b")]))
    kept = agent.chat_stream("x")
    assert [event.type for event in kept][-1] == "done"
    failed = agent.chat_stream("y", raise_errors=False)
    assert [event.type for event in failed][-1] == "error"
    unused = agent.chat_stream("z")
    assert agent.stop() == 0
    assert kept.result().content == "a"
    assert not unused.stop()


def test_tools_that_are_switched_off_are_also_off_in_forks():
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
