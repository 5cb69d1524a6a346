"""How runs end and follow each other: interrupts, dropped streams, nested runs, threads. With a scripted model."""

import asyncio
import sys
import threading
import time

import pytest

from nbagent import (
    Agent,
    FunctionCall,
    FunctionRegistry,
    LLMMessage,
    LLMProvider,
    LLMResponse,
    ScriptedProvider,
    StreamingHandler,
    Usage,
)
from nbagent.core.events import Text, Thinking
from nbagent.core.repair import NO_RESULT
from nbagent.errors import AgentBusyError


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def call(name, id="c1", /, **arguments):
    return FunctionCall(name, arguments, id)


async def test_cancelling_keeps_the_text_so_far_and_the_next_message_works():
    agent = Agent(ScriptedProvider(["one two three four", "fine"], delay=0.01))
    seen = asyncio.Event()

    class Watch(StreamingHandler):
        def on_token(self, token):
            seen.set()

    task = asyncio.create_task(agent.chat("count", handler=Watch()))
    await seen.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert agent.conversation_history[-1].interrupted
    assert agent.conversation_history[-1].content.startswith("one")
    assert agent.trace.runs["status"].tolist() == ["interrupted"]
    assert (await agent.chat("and?")).content == "fine"


async def test_cancelling_during_a_tool_leaves_one_result_per_call():
    started = asyncio.Event()

    async def slow() -> str:
        started.set()
        await asyncio.sleep(60)
        return "never"

    agent = Agent(ScriptedProvider([[call("slow", "c1"), call("add", "c2", a=1, b=1)], "fine"]), tools=[slow, add])
    task = asyncio.create_task(agent.chat("go"))
    await started.wait()
    while not agent.trace.tool_calls["result_text"].notna().any():
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [m.content for m in agent.conversation_history if m.role == "tool"] == [NO_RESULT, "2"]
    assert (await agent.chat("and?")).content == "fine"


async def test_break_stops_the_run():
    agent = Agent(ScriptedProvider(["a b c d", "fine"]))
    async with agent.chat_stream("x") as stream:
        async for event in stream:
            if event.type == "text":
                break
    assert agent.conversation_history[-1] == LLMMessage("assistant", "a ", interrupted=True)
    assert (await asyncio.wait_for(agent.chat("and?"), 5)).content == "fine"


def test_break_out_of_a_plain_for_stops_the_run():
    agent = Agent(ScriptedProvider(["a b c d", "fine"]))
    for event in agent.chat_stream("x"):
        if event.type == "text":
            break
    assert agent.conversation_history[-1].interrupted
    assert agent.chat_sync("and?").content == "fine"


async def test_a_dropped_stream_does_not_block_the_next_run():
    agent = Agent(ScriptedProvider(["a b c d", "fine"]))
    async for event in agent.chat_stream("x"):
        if event.type == "text":
            break
    assert (await asyncio.wait_for(agent.chat("and?"), 5)).content == "fine"


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
    result = await asyncio.wait_for(agent.chat("outer"), 10)
    assert AgentBusyError.__name__ in provider.requests[1][0][-1].content
    assert result.content == "done"


async def test_another_agent_inside_a_tool_is_fine():
    inner = Agent(ScriptedProvider(["from inside"]))

    def ask() -> str:
        return inner.chat_sync("x").content

    outer = Agent(ScriptedProvider([call("ask"), "ok"]), tools=[ask])
    assert (await outer.chat("x")).function_calls[0]["result"] == "from inside"


async def test_main_thread_tools_run_on_the_main_thread():
    def where() -> str:
        return threading.current_thread().name

    registry = FunctionRegistry()
    registry.register("where", "Where am I?", where, main_thread=True)
    script = [call("where"), "ok"]
    on_loop = await Agent(ScriptedProvider(script), registry).chat("x")
    blocking = Agent(ScriptedProvider(script), registry).chat_sync("x")
    assert {on_loop.function_calls[0]["result"], blocking.function_calls[0]["result"]} == {"MainThread"}


def test_main_thread_tools_are_served_under_a_plain_for():
    registry = FunctionRegistry()
    registry.register("where", "Where am I?", lambda: threading.current_thread().name, main_thread=True)
    agent = Agent(ScriptedProvider([call("where"), "ok"]), registry)
    results = [event.content for event in agent.chat_stream("x") if event.type == "tool_result"]
    assert results == ["MainThread"]


def test_sys_exit_in_a_callback_ends_the_caller_and_not_the_loop():
    class Handler(StreamingHandler):
        def on_token(self, token):
            sys.exit(3)

    agent = Agent(ScriptedProvider(["a", "b"]))
    with pytest.raises(SystemExit):
        agent.chat_sync("x", handler=Handler())
    assert agent.chat_sync("y").content == "b"


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_a_tool_that_raises_these_does_not_end_the_loop(error):
    async def leave() -> None:
        raise error

    agent = Agent(ScriptedProvider([call("leave"), "still here"]), tools=[leave])
    assert agent.chat_sync("x").content == "still here"


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
        await asyncio.sleep(0)
        await asyncio.sleep(0.01)
    assert agent.chat_sync("z").content == "fine"


@pytest.mark.parametrize("handed_over", [False, True], ids=["waiting", "the turn has just come"])
async def test_a_blocking_call_behind_a_run_that_it_holds_up_is_an_error(handed_over):
    """The run that it would wait for is not the one that goes on, but waits for that one, on this very loop."""
    go_on = threading.Event()
    agent = Agent(ScriptedProvider([call("wait"), "first", "second", "third", "fourth"]), tools=[])
    agent.register_function("wait", "Wait.", lambda: str(go_on.wait(10)))
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
    with pytest.raises(AgentBusyError, match="blocking call holds up the event loop"):
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


async def test_a_stream_closed_between_two_calls_leaves_no_tool_running():
    ran = []

    async def slow(n: int) -> int:
        await asyncio.sleep(0.05)
        ran.append(n)
        return n

    calls = [call("slow", "c1", n=1), call("slow", "c2", n=2)]
    agent = Agent(ScriptedProvider([calls]), tools=[slow])
    async with agent.chat_stream("x") as stream:
        async for event in stream:
            if event.type == "tool_started" and event.tool_arguments == {"n": 2}:
                break
    await asyncio.sleep(0.2)
    assert ran == []


async def test_a_stream_can_be_stopped_from_another_task():
    agent = Agent(ScriptedProvider(["word " * 1000], delay=0.01))
    stream = agent.chat_stream("x")
    reading = asyncio.create_task(stream.collect())
    await asyncio.sleep(0.05)
    await stream.aclose()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert agent.conversation_history[-1].interrupted


async def test_leaving_at_done_does_not_undo_it():
    agent = Agent(ScriptedProvider(["a"]))
    async for event in agent.chat_stream("x"):
        if event.type == "done":
            break
    assert event.result.status == "ok"
    assert agent.trace.runs["status"].tolist() == ["ok"]


class Ponders(LLMProvider):
    """Thinks, says half an answer, and then waits for ever."""

    model_name = "ponders"

    def supports_function_calling(self):
        return True

    async def chat(self, messages, functions=None, **kwargs):
        raise AssertionError

    async def stream(self, messages, functions=None, temperature=None, **kwargs):
        yield Thinking("hm, ")
        yield Thinking("well")
        yield Text("half")
        await asyncio.sleep(600)


async def test_the_trace_of_an_interrupted_run_has_all_of_it():
    agent = Agent(Ponders())
    task = asyncio.create_task(agent.chat("x"))
    while not agent.trace.calls["ttft_s"].notna().any():
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert agent.trace.thinking["text"].tolist() == ["hm, well"]
    assert agent.trace.messages[["role", "text"]].values.tolist() == [["user", "x"], ["assistant", "half"]]
    assert agent.trace.calls["error_type"].tolist() == ["interrupted"]


async def test_an_interrupted_call_is_a_closed_row():
    started = asyncio.Event()

    async def slow() -> None:
        started.set()
        await asyncio.sleep(600)

    agent = Agent(ScriptedProvider([call("slow")]), tools=[slow])
    task = asyncio.create_task(agent.chat("x"))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert agent.trace.tool_calls[["name", "error_type", "is_error"]].values.tolist() == [["slow", "interrupted", True]]
    assert agent.trace.messages["text"].iloc[-1] == NO_RESULT


async def test_what_is_not_known_is_not_called_zero():
    silent = LLMResponse("", [call("add", a=1, b=1)], None, None)
    counted = LLMResponse("2", None, "stop", {"usage": Usage(1_000_000, 0), "model": "claude-sonnet-5"})
    provider = ScriptedProvider([silent, counted])
    provider.vendor = "claude"
    agent = Agent(provider, tools=[add])
    result = await agent.chat("x")
    assert result.cost is None
    assert agent.trace.calls["input_tokens"].isna().tolist() == [True, False]
    assert agent.trace.calls["cost_usd"].isna().tolist() == [True, False]
    assert agent.trace.runs["cost_usd"].isna().all()
    assert agent.trace.runs["input_tokens"].tolist() == [1_000_000]


async def test_half_a_surrogate_pair_breaks_nothing():
    def names() -> list:
        return ["caf\udce9.txt"]

    agent = Agent(ScriptedProvider([call("names"), "half \ud83d of it"]), tools=[names])
    await agent.chat("x \ud83d\ude00")
    assert agent.conversation_history[0].content == "x \U0001f600"
    for table in (agent.trace.runs, agent.trace.messages, agent.trace.tool_calls, agent.trace.events):
        table.to_csv().encode()


async def test_an_answer_that_is_cancelled_while_its_stream_is_closed_keeps_its_text():
    closing = asyncio.Event()

    class SlowToClose(ScriptedProvider):
        async def stream(self, messages, functions=None, temperature=None, **kwargs):
            try:
                yield Text("Nearly done.")
                yield LLMResponse("Nearly done.")
            finally:
                closing.set()
                await asyncio.sleep(60)

    agent = Agent(SlowToClose([]))
    task = asyncio.create_task(agent.chat("x"))
    await closing.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    last = agent.conversation_history[-1]
    assert (last.content, last.interrupted) == ("Nearly done.", True)


async def test_a_tool_may_clear_the_conversation_that_it_is_called_in():
    def forget() -> str:
        """Forget everything."""
        agent.clear_history()
        return "done"

    asked = []

    def answer(messages, functions):
        asked.append([message.role for message in messages])
        return [call("forget")] if len(asked) == 1 else "fine"

    agent = Agent(ScriptedProvider(answer), tools=[forget])
    assert (await agent.chat("x")).content == "fine"
    assert asked == [["user"], ["user"]], "no vendor takes a conversation without a message"
