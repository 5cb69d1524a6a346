"""How runs end and follow each other: interrupts, dropped streams, nested runs, threads. With a scripted model."""

import asyncio
import math
import sys
import threading
import time

import pytest
from support.small_agent import add, call

from nbagent import (
    Agent,
    FunctionCall,
    FunctionDefinition,
    FunctionRegistry,
    Limits,
    LLMMessage,
    LLMProvider,
    LLMResponse,
    ScriptedProvider,
    StreamingHandler,
)
from nbagent.core.events import Text, Thinking
from nbagent.core.history.repair import NO_RESULT
from nbagent.core.stream import AgentStream


class Watch(StreamingHandler):
    """Tells when the answer has begun."""

    def __init__(self):
        self.seen = asyncio.Event()

    def on_token(self, token):
        self.seen.set()


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
    rows = agent.trace.tool_calls[["name", "error_type", "is_error"]].fillna("").values.tolist()
    assert rows == [["slow", "interrupted", True], ["add", "", False]]
    assert (await agent.chat("and?")).content == "fine"


async def test_break_stops_the_run():
    agent = Agent(ScriptedProvider(["a b c d", "fine"]))
    async with agent.chat_stream("x") as stream:
        async for event in stream:
            if event.type == "text":
                break
    assert agent.conversation_history[-1] == LLMMessage("assistant", "a ", interrupted=True)
    assert (await asyncio.wait_for(agent.chat("and?"), 300)).content == "fine"


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
    assert (await asyncio.wait_for(agent.chat("and?"), 300)).content == "fine"


def test_main_thread_tools_run_on_the_main_thread_however_the_agent_is_asked():
    registry = FunctionRegistry()
    registry.register("where", "Where am I?", lambda: threading.current_thread().name, main_thread=True)
    agent = Agent(ScriptedProvider([call("where"), "ok"] * 3), registry)
    asyncio.run(agent.chat("x"))
    agent.chat_sync("x")
    for _ in agent.chat_stream("x"):
        pass
    assert agent.trace.tool_calls["result_text"].tolist() == ["MainThread"] * 3


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


class Dwell(Watch):
    """Does not ask for more at once."""

    async def on_token(self, token):
        self.seen.set()
        await asyncio.sleep(0.05)


@pytest.mark.parametrize("handler", [Watch, Dwell], ids=["waiting for an event", "between two events"])
async def test_a_stream_can_be_stopped_from_another_task(handler):
    agent = Agent(ScriptedProvider(["word " * 1000], delay=0.01))
    stream, watch = agent.chat_stream("x"), handler()
    reading = asyncio.create_task(stream.collect(watch))
    await watch.seen.wait()
    await stream.aclose()
    with pytest.raises(asyncio.CancelledError):
        await reading
    with pytest.raises(asyncio.CancelledError, match="stopped"):
        stream.result()
    assert agent.conversation_history[-1].interrupted


@pytest.mark.parametrize("close", [AgentStream.aclose, lambda stream: asyncio.to_thread(stream.stop)])
async def test_a_reader_waits_until_a_stream_that_another_task_closes_is_closed(close):
    begun, closes, closed = asyncio.Event(), asyncio.Event(), []

    async def words(*_, **__):
        try:
            yield Text("word ")
            yield Text("word ")
        finally:
            closes.set()
            await asyncio.sleep(0.05)
            closed.append(True)

    agent = Agent(ScriptedProvider())
    agent.provider.stream = words
    stream = agent.chat_stream("x")

    async def read():
        async for event in stream:
            if event.type == "text":
                begun.set()
                await closes.wait()
        assert closed

    reading = asyncio.create_task(read())
    await begun.wait()
    await asyncio.gather(reading, close(stream))
    with pytest.raises(asyncio.CancelledError, match="stopped"):
        stream.result()


async def test_leaving_at_done_does_not_undo_it():
    agent = Agent(ScriptedProvider(["a"]))
    async for event in agent.chat_stream("x"):
        if event.type == "done":
            break
    assert event.result.status == "ok"
    assert agent.trace.runs["status"].tolist() == ["ok"]


class Ponders(LLMProvider):
    """Thinks, says half an answer, and then waits for ever; `waits` tells when."""

    model_name = "ponders"

    def __init__(self):
        self.waits = asyncio.Event()

    def supports_function_calling(self):
        return True

    async def chat(self, messages, functions=None, **kwargs):
        raise AssertionError

    async def stream(self, request):
        yield Thinking("hm, ")
        yield Thinking("well")
        yield Text("half")
        self.waits.set()
        await asyncio.sleep(600)


async def test_a_cancelled_run_keeps_what_was_said_in_history_and_trace_and_the_agent_goes_on():
    agent = Agent(Ponders())
    task = asyncio.create_task(agent.chat("x"))
    await agent.provider.waits.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert agent.trace.thinking["text"].tolist() == ["hm, well"]
    assert agent.trace.messages[["role", "text"]].values.tolist() == [["user", "x"], ["assistant", "half"]]
    assert agent.trace.calls["error_type"].tolist() == ["interrupted"]
    assert agent.conversation_history[-1] == LLMMessage("assistant", "half", interrupted=True)
    agent.provider = ScriptedProvider(["fine"])
    assert (await agent.chat("and?")).content == "fine"


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
        async def stream(self, request):
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
    assert (last.content, last.interrupted) == ("Nearly done.", False)


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


class NeverWaiting(ScriptedProvider):
    async def stream(self, request):
        for _ in range(300_000):
            yield Text("x")


async def test_the_time_for_a_run_ends_with_a_provider_that_never_waits():
    agent = Agent(NeverWaiting("unused"), limits=Limits(max_seconds=0.2))
    result = await agent.chat("go")
    assert (result.status, result.limit_reason) == ("limit", "time")


class Early(asyncio.SelectorEventLoop):
    """Its timers ring a little early, as those of uvloop do."""

    def call_at(self, when, *args, **kwargs):
        return super().call_at(when - 0.01, *args, **kwargs)


def test_a_timer_that_rings_early_ends_the_run_too():
    asked = []
    agent = Agent(ScriptedProvider(lambda *request: asked.append(request) or silent()), limits=Limits(max_seconds=0.1))
    with asyncio.Runner(loop_factory=Early) as runner:
        assert runner.run(agent.chat("go")).limit_reason == "time"
    assert len(asked) < 2


async def test_a_time_limit_leaves_the_providers_own_timeouts_alone():
    agent = Agent(ScriptedProvider(TimeoutError("the provider's")), limits=Limits(max_seconds=60))
    with pytest.raises(TimeoutError, match="the provider's"):
        await agent.chat("go")
    agent.provider = ScriptedProvider("in time")
    assert (await agent.chat("go")).status == "ok"


@pytest.mark.parametrize("turn", ["done", RuntimeError("broken")])
async def test_the_last_event_and_the_trace_report_the_same_duration(turn):
    agent = Agent(ScriptedProvider([turn]))
    ends = []
    agent.observers.append(lambda event: ends.append(event) if event.type in ("done", "error") else None)
    await asyncio.gather(agent.chat("go"), return_exceptions=True)
    assert [end.metadata["duration_s"] for end in ends] == agent.trace.runs["duration_s"].tolist()


async def test_a_stream_shows_where_it_is():
    thinking = LLMResponse("It is **3**.", None, "stop", {"thinking": "Add them."})
    agent = Agent(ScriptedProvider([call("add", a=1, b=2), thinking]), tools=[add])
    stream = agent.chat_stream("What is 1 + 2?")
    assert repr(stream).startswith("<AgentStream not started")
    seen = {}
    async for event in stream:
        seen.setdefault(event.type, repr(stream))
        assert stream._repr_mimebundle_() == {"text/plain": repr(stream)} or event.type == "done"
    assert seen["run_started"] == seen["turn_started"] == "<AgentStream running: waiting for the model>"
    assert seen["tool_started"] == "<AgentStream running: tool 'add'>"
    assert seen["thinking"] == "<AgentStream running: the model is thinking>"
    assert seen["text"] == "<AgentStream running: the model is answering>"
    assert repr(stream) == f"<AgentStream over: {stream.result()!r}>"
    assert "<strong>3</strong>" in stream._repr_mimebundle_()["text/html"]

    broken = agent.chat_stream("And now?", raise_errors=False)  # the script is over
    async for _ in broken:
        pass
    assert repr(broken).startswith("<AgentStream failed: ")
