"""Runs of one agent follow each other; one that would wait for itself is an error. With a scripted model."""

import asyncio
import threading
import time

import pytest
from support.small_agent import call

from nbagent import Agent, ScriptedProvider, StreamingHandler
from nbagent.errors import AgentBusyError


async def test_runs_on_one_agent_follow_each_other():
    agent = Agent(ScriptedProvider(["first answer", "second answer"], delay=0.001))
    results = await asyncio.gather(agent.chat("first"), agent.chat("second"))
    assert [r.content for r in results] == ["first answer", "second answer"]
    assert [m.content for m in agent.conversation_history] == ["first", "first answer", "second", "second answer"]


@pytest.mark.parametrize("blocking", [True, False])
async def test_asking_the_agent_from_its_own_tool_is_an_error_not_a_deadlock(blocking):
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


async def test_another_agent_inside_a_tool_is_fine():
    inner = Agent(ScriptedProvider(["from inside"]))

    def ask() -> str:
        return inner.chat_sync("x").content

    outer = Agent(ScriptedProvider([call("ask"), "ok"]), tools=[ask])
    assert (await outer.chat("x")).function_calls[0]["result"] == "from inside"


def test_asking_inside_a_plain_for_over_the_same_agent_is_an_error():
    agent = Agent(ScriptedProvider(["a b", "c"]))
    for event in agent.chat_stream("x"):
        if event.type == "text":
            with pytest.raises(AgentBusyError):
                agent.chat_sync("y")
    assert agent.chat_sync("z").content == "c"


async def test_asking_inside_an_async_for_over_the_same_agent_is_an_error():
    agent = Agent(ScriptedProvider(["a b", "c"]))
    async for event in agent.chat_stream("x"):
        if event.type == "text":
            with pytest.raises(AgentBusyError):
                await agent.chat("y")
    assert (await agent.chat("z")).content == "c"


@pytest.mark.parametrize("leaves", [False, True], ids=["inside", "after a break"])
async def test_a_blocking_call_that_holds_up_the_run_it_waits_for_is_an_error(leaves):
    agent = Agent(ScriptedProvider(["a b c", "fine"]))
    async for event in agent.chat_stream("x"):
        if event.type == "text":
            if leaves:
                break
            with pytest.raises(AgentBusyError):
                agent.chat_sync("y")
    if leaves:
        with pytest.raises(AgentBusyError):  # the stream is closed as soon as the event loop runs
            agent.chat_sync("y")
        async with asyncio.timeout(300):
            while agent._queue.entries:
                await asyncio.sleep(0)
    assert agent.chat_sync("z").content == "fine"


def test_a_blocking_call_behind_a_run_whose_loop_stands_still_is_an_error():
    """A script's loop goes on only when the thread that now waits runs it again."""
    agent = Agent(ScriptedProvider(["fine"]))
    stream = agent.chat_stream("x")

    async def first_event():
        iterator = aiter(stream)
        await anext(iterator)
        return iterator

    with asyncio.Runner() as runner:
        iterator = runner.run(first_event())
        with pytest.raises(AgentBusyError, match="this call blocks the event loop"):
            agent.chat_sync("y")
        runner.run(iterator.aclose())
        assert agent.chat_sync("z").content == "fine"


@pytest.mark.parametrize("handed_over", [False, True], ids=["waiting", "the turn has just come"])
async def test_a_blocking_call_behind_a_run_that_it_holds_up_is_an_error(handed_over):
    """The run that it would wait for is not the one that goes on, but waits for that one, on this very loop."""
    go_on = threading.Event()
    agent = Agent(ScriptedProvider([call("wait"), "first", "second", "third", "fourth"]), tools=[])
    agent.register_function("wait", "Wait.", lambda: str(go_on.wait(300)))
    elsewhere = asyncio.create_task(asyncio.to_thread(agent.chat_sync, "in a thread"))
    while not agent.conversation_history:
        await asyncio.sleep(0.001)
    here = asyncio.create_task(agent.chat("on this loop"))
    await asyncio.sleep(0.01)
    if handed_over:
        go_on.set()
        while agent.conversation_history[-1].text != "first":
            time.sleep(0.001)  # this loop stands still, so that nobody takes the turn
        time.sleep(0.05)
    with pytest.raises(AgentBusyError, match="this call blocks the event loop"):
        agent.chat_sync("blocking")
    with pytest.raises(AgentBusyError):
        next(iter(agent.chat_stream("a plain for")))
    go_on.set()
    assert (await elsewhere).content == "first"
    assert (await here).content == "second"
    assert agent.chat_sync("again").content == "third"


async def test_a_blocking_call_waits_for_runs_of_other_loops():
    agent = Agent(ScriptedProvider(["a b c", "d e f", "g"], delay=0.01))
    others = [asyncio.create_task(asyncio.to_thread(agent.chat_sync, text)) for text in "xy"]
    while not agent.conversation_history:
        await asyncio.sleep(0.001)
    assert {agent.chat_sync("z").content, *[(await other).content for other in others]} == {"a b c", "d e f", "g"}


async def test_asking_from_a_callback_is_an_error():
    agent = Agent(ScriptedProvider(["a", "b"]))

    class Handler(StreamingHandler):
        async def on_token(self, token):
            await agent.chat("inner")

    with pytest.raises(AgentBusyError):
        await agent.chat("x", handler=Handler())
    assert (await agent.chat("y")).content == "b"


async def test_a_task_started_meanwhile_waits_for_its_turn():
    agent, following = Agent(ScriptedProvider(["a b", "c"])), None
    async for _ in agent.chat_stream("x"):
        following = following or asyncio.create_task(agent.chat("y"))
    assert (await following).content == "c"


async def test_a_task_that_a_tool_left_behind_may_ask_later():
    later, over = [], asyncio.Event()

    async def remind() -> str:
        async def ask():
            await over.wait()
            return await agent.chat("inner")

        later.append(asyncio.create_task(ask()))
        return "will do"

    agent = Agent(ScriptedProvider([call("remind"), "ok", "reminded"]), tools=[remind])
    await agent.chat("x")
    over.set()
    assert (await later[0]).content == "reminded"
