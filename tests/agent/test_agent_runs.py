"""How runs end and follow each other: interrupts, dropped streams, nested runs, threads. With a scripted model."""

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
    ScriptedProvider,
)


def test_main_thread_tools_run_on_the_main_thread_however_the_agent_is_asked():
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
async def test_the_time_for_a_run_ends_whatever_it_waits_for(turns, tool):
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
