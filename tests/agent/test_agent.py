"""The agent end to end with a scripted model: the loop, its results, its history and how it ends."""

from collections import deque
from contextlib import nullcontext

import pytest
from support.small_agent import add, call

from nbagent import (
    Agent,
    LLMProvider,
    LLMResponse,
    ScriptedProvider,
    StreamingHandler,
)
from nbagent.errors import RateLimitError, ServerError


def roles(agent):
    return [m.role for m in agent.conversation_history]


def stream_plainly():
    stream = Agent(ScriptedProvider(["one two"])).chat_stream("count")
    assert [e["content"] for e in stream if e["type"] == "text"] == ["one ", "two"]
    assert stream.result().content == "one two"


def test_a_plain_for_loop_and_a_blocking_call_work_in_a_script():
    stream_plainly()
    assert Agent(ScriptedProvider(["hello"])).chat_sync("hi").content == "hello"


async def test_a_plain_for_loop_works_inside_a_running_event_loop():
    stream_plainly()


@pytest.mark.parametrize("sent", [False, True])
async def test_the_model_reads_an_exceptions_type_and_text_and_the_trace_keeps_the_traceback(sent):
    def fail() -> str:
        """Fail."""
        secret = "no such shop"
        raise LookupError(secret)

    agent = Agent(ScriptedProvider([call("fail"), "I can't."]), tools=[fail], tool_tracebacks=sent)
    await agent.chat("Go.")
    read = agent.conversation_history[-2].text
    assert read.splitlines()[0] == "Error: LookupError: no such shop"
    assert (len(read.splitlines()) > 1, "test_agent.py" in read, "raise LookupError(secret)" in read) == (sent,) * 3
    assert "raise LookupError(secret)" in agent.trace.tool_calls["traceback"].item()
    assert agent.fork().tool_executor.tracebacks is sent


@pytest.mark.parametrize("raise_errors", [True, False])
async def test_a_failed_stream_ends_with_one_error_event_and_raises_unless_disabled(raise_errors):
    stream = Agent(ScriptedProvider([RateLimitError("no")])).chat_stream("x", raise_errors=raise_errors)
    seen = deque()

    async def read():
        async for event in stream:
            seen.append(event)

    with pytest.raises(RateLimitError) if raise_errors else nullcontext():
        await read()
    assert [event.type for event in seen].count("error") == 1
    assert isinstance(seen[-1].exception, RateLimitError)
    assert seen[-1].exception.partial.status == "error"
    with pytest.raises(RateLimitError):
        stream.result()


async def test_a_failed_prompt_leaves_the_history_but_stays_in_the_trace():
    provider = ScriptedProvider(["Hello.", *[ServerError("down")] * 3, "It is 3."])
    agent = Agent(provider)
    await agent.chat("Hi")
    for _ in range(3):
        with pytest.raises(ServerError):
            await agent.chat("What is 1 + 2?")
        assert [message.text for message in agent.conversation_history] == ["Hi", "Hello."]
    await agent.chat("What is 1 + 2?")
    assert [message.text for message in provider.requests[-1][0]] == ["Hi", "Hello.", "What is 1 + 2?"]
    runs, messages = agent.trace.runs, agent.trace.messages
    assert runs["status"].tolist() == ["ok", "error", "error", "error", "ok"]
    assert runs["branch"].nunique() == 1
    questions = messages[messages["text"] == "What is 1 + 2?"]
    assert questions["parent_id"].tolist() == [messages["message_id"][1]] * 4


async def test_a_failed_prompt_stays_in_the_history_if_tools_have_run():
    agent = Agent(ScriptedProvider([call("add", a=1, b=2), ServerError("down"), "3"]), tools=[add])
    with pytest.raises(ServerError):
        await agent.chat("1 + 2?")
    assert roles(agent) == ["user", "assistant", "tool"]
    await agent.chat("Go on.")
    assert roles(agent) == ["user", "assistant", "tool", "user", "assistant"]


async def test_callbacks_sync_and_async():
    seen = []

    class Handler(StreamingHandler):
        async def on_token(self, token):
            seen.append(("token", token))

        def on_tool_call(self, call):
            seen.append(("call", call))

        async def on_tool_result(self, call, result):
            seen.append(("result", call.name, result))

        def on_complete(self, content):
            seen.append(("complete", content))

    agent = Agent(ScriptedProvider([call("add", a=1, b=2), "3"]), tools=[add])
    await agent.chat("x", handler=Handler())
    assert seen == [("call", call("add", a=1, b=2)), ("result", "add", "3"), ("token", "3"), ("complete", "3")]


async def test_a_custom_provider_needs_only_chat():
    class MyProvider(LLMProvider):
        def __init__(self):
            pass

        async def chat(self, messages, functions=None, **kwargs):
            return LLMResponse(f"{len(messages)} messages", raw_response={"provider": "mine", "x": 1})

    agent = Agent(MyProvider())
    stream = agent.chat_stream("hello")
    assert [e.content async for e in stream if e.type == "text"] == ["1 messages"]
    assert agent.conversation_history[-1].provider_extras == {"provider": "mine", "x": 1}
    assert "MyProvider" in repr(agent)


async def test_a_fork_is_independent_and_has_the_current_system_prompt():
    agent = Agent(ScriptedProvider(["a", "b", "c"]), tools=[add], system_prompt="of the beginning")
    agent.system_prompt = "of now"
    await agent.chat("x")
    other = agent.fork()
    await other.chat("y")
    assert other.system_prompt == "of now"
    assert (len(agent.conversation_history), len(other.conversation_history)) == (3, 5)
    assert len(agent.trace.runs) == len(other.trace.runs) == 1
