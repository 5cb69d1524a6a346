"""Recording models' answers and replaying them exactly, the modes, and the difference shown if an answer is missing."""

import asyncio
import json

import pytest
from support.loopback import Answer, claude_said

import nbagent
from nbagent import Agent, FunctionCall, LLMResponse, ReplayProvider, ScriptedProvider, Usage, create_provider
from nbagent.core.events import Text
from nbagent.errors import AuthenticationError, BadRequestError, ConfigurationError, RateLimitError, ReplayError
from nbagent.providers.base import LLMProvider

PNG = bytes.fromhex("89504e470d0a1a0a0000000d4948445200000001000000010806000000")


def double(x: int) -> int:
    """Twice x."""
    calls.append(x)
    return 2 * x


calls: list[int] = []


def turns():
    facts = {"usage": Usage(10, 5, 2, 1, 3), "usage_raw": {"in": 10}, "model": "m-1", "thinking": "let me see"}
    native = {"provider": "scripted", "blocks": [{"type": "thinking", "thinking": "let me see", "signature": "c2ln"}]}
    return [
        LLMResponse("", [FunctionCall("double", {"x": 4})], "tool_calls", facts, native),
        LLMResponse("It is eight, Ünïcode.", None, "stop", facts),
    ]


class Silent(LLMProvider):
    """Fails when it is asked."""

    provider_name, model_name = "silent", "no-model"

    async def chat(self, messages, functions=None, temperature=None, **kwargs):
        raise AssertionError("the model itself was asked")


async def events_of(agent, message="Twice 4?"):
    return [(event.type, event.content, event.tool_name) async for event in agent.chat_stream(message)]


def lines(path):
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


async def test_a_replay_equals_the_recording(path):
    first = Agent(ScriptedProvider(turns(), model="m"), tools=[double], system_prompt="Be brief.")
    with nbagent.record(path):
        recorded = await events_of(first)
    calls.clear()
    again = Agent(Silent(), tools=[double], system_prompt="Be brief.")
    with nbagent.replay(path):
        assert await events_of(again) == recorded
    assert calls == [4]  # the tool ran for real
    extras = [[message.provider_extras for message in agent.conversation_history] for agent in (first, again)]
    assert extras[0] == extras[1]
    same = ["provider", "model", "response_model", "finish_reason", "total_tokens", "usage_raw", "cost_usd", "quoted"]
    assert again.trace.calls[same].equals(first.trace.calls[same])
    assert again.trace.calls["replayed"].tolist() == [True, True]
    assert first.trace.calls["replayed"].tolist() == [False, False]


async def test_times_come_from_the_recording_without_the_set_up(path):
    class SettingUp(ScriptedProvider):
        async def stream(self, request):
            with request.timing:
                await asyncio.sleep(4)
            async for item in super().stream(request):
                yield item

    first, agent = Agent(SettingUp(["one two three"], delay=0.03)), Agent("scripted")
    with nbagent.record(path):
        await events_of(first, "x")
    took = lines(path)[1]["duration_s"]
    with nbagent.replay(path):
        await events_of(agent, "x")
    live, call = first.trace.calls.iloc[0], agent.trace.calls.iloc[0]
    assert 0.09 <= call["duration_s"] == took == pytest.approx(live["duration_s"], abs=3)
    assert 0.03 <= call["ttft_s"] == pytest.approx(live["ttft_s"], abs=3)
    agent = Agent(ReplayProvider(path, speed=0.5))  # at the recorded pace, twice as slow
    await events_of(agent, "x")
    run = agent.trace.runs.iloc[0]
    assert (run["ended"] - run["started"]).total_seconds() >= 2 * took * 0.95


async def test_a_replay_provider_needs_no_block(path):
    with nbagent.record(path):
        recorded = await events_of(Agent(ScriptedProvider(turns()), tools=[double]))
    for agent in (Agent(f"replay:{path}", tools=[double]), Agent(ReplayProvider(path), tools=[double])):
        assert await events_of(agent) == recorded
        assert agent.trace.runs["replayed"].tolist() == [True]
        assert agent.trace.calls["provider"].tolist() == ["scripted", "scripted"]
    with pytest.raises(ConfigurationError, match="Name the recording"):
        create_provider("replay")
    with pytest.raises(ConfigurationError, match="can't read the recording"):
        create_provider("replay:no_such_file.jsonl")


async def test_the_error_shows_the_difference(path):
    with nbagent.record(path):
        await events_of(Agent(ScriptedProvider(["x"]), system_prompt="Be brief."), "An unrelated question")
        await events_of(Agent(ScriptedProvider(turns()), tools=[double], system_prompt="Be brief."))
    agent = Agent(Silent(), tools=[double], system_prompt="Be brief.")
    with nbagent.replay(path), pytest.raises(ReplayError, match="has no answer to this request") as caught:
        await agent.chat("Twice 5?")
    assert "-user: Twice 4?\n+user: Twice 5?" in caught.value.difference
    assert "unrelated" not in caught.value.difference
    assert "mode='new'" in str(caught.value)
    with nbagent.replay(path), pytest.raises(ReplayError) as caught:
        await agent.fork().chat("Twice 4?", temperature=0.5)
    assert "+option temperature: 0.5" in caught.value.difference


async def test_the_same_request_gets_its_answers_in_order(path):
    with nbagent.record(path):
        for text in ("first", "second"):
            await Agent(ScriptedProvider([text])).chat("again")
    with nbagent.replay(path):
        assert [str(await Agent(Silent()).chat("again")) for _ in range(3)] == ["first", "second", "second"]
    with nbagent.replay(path):  # from the beginning
        assert str(await Agent(Silent()).chat("again")) == "first"


async def test_mode_once_records_if_there_is_no_file(path):
    with nbagent.replay(path) as tape:
        assert not tape.replay_only
        assert str(await Agent(ScriptedProvider(["real"])).chat("1")) == "real"
    with nbagent.replay(path) as tape:
        assert tape.replay_only
        assert str(await Agent(Silent()).chat("1")) == "real"


async def test_mode_new_records_requests_missing_in_the_file(path):
    with nbagent.record(path):
        await Agent(ScriptedProvider(["old"])).chat("1")
    mixed = Agent(ScriptedProvider(["new"]))
    with nbagent.replay(path, mode="new"):
        assert str(await mixed.chat("1")) == "old"
        assert str(await mixed.chat("2")) == "new"
    assert mixed.trace.runs["replayed"].tolist() == [True, False]
    with nbagent.replay(path):
        assert str(await Agent(Silent()).chat("1")) == "old"
    assert len(lines(path)) == 3


async def test_mode_all_overwrites_the_file_with_the_first_answer(path):
    with nbagent.record(path):
        await Agent(ScriptedProvider(["old"])).chat("1")
    before = path.read_bytes()
    with nbagent.replay(path, mode="all"):
        pass
    assert path.read_bytes() == before
    with nbagent.replay(path, mode="all"):
        await Agent(ScriptedProvider(["new"])).chat("1")
    assert [line["response"]["content"] for line in lines(path)[1:]] == ["new"]


def test_wrong_arguments_are_errors(path):
    with pytest.raises(ConfigurationError, match="mode: .*'all', got 'some'"):
        nbagent.replay(path, mode="some")
    with pytest.raises(ConfigurationError, match="speed: .* got 0"):
        nbagent.replay(path, speed=0)
    with pytest.raises(ConfigurationError, match="Name the file of the recording"):
        nbagent.record(5)
    for place in (path.parent / "none" / "run.jsonl", path.parent):
        with pytest.raises(ConfigurationError, match="name a file in a folder that exists"):
            nbagent.record(place).start()
    for other in (b"hello\n", b"\xff\xfe\n", b"5\n", b"{}\n"):
        path.write_bytes(other)
        with pytest.raises(ConfigurationError, match="is not a recording: line 1"):
            nbagent.replay(path).start()
    path.write_text('{"format": "nbagent recording", "version": 2}\n')
    with pytest.raises(ConfigurationError, match="expected version 1 .* got 2.* Name another file, or use"):
        nbagent.replay(path).start()


@pytest.mark.parametrize(
    "error",
    [
        RateLimitError("slow down", provider="v", model="m", status=429, request_id="r1", retry_after=2.5),
        BadRequestError("no", provider="v", status=400, code="1214"),
    ],
)
async def test_failures_are_replayed(path, error):
    with nbagent.record(path), pytest.raises(type(error)) as first:
        await Agent(ScriptedProvider([error])).chat("1")
    agent = Agent(Silent())
    with nbagent.replay(path), pytest.raises(type(error)) as second:
        await agent.chat("1")
    assert str(second.value) == str(first.value)
    for name in ("retry_after", "code"):
        assert getattr(second.value, name, None) == getattr(first.value, name, None)
    assert agent.trace.runs[["status", "replayed"]].values.tolist() == [["error", True]]


async def test_interrupted_answers_and_missing_keys_are_not_written(path, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with nbagent.record(path):
        async for event in Agent(ScriptedProvider(["one two three"])).chat_stream("1"):
            if isinstance(event, Text):
                break
        with pytest.raises(AuthenticationError):
            await Agent("openai").chat("1")
    assert not path.exists()


async def test_a_replay_needs_no_key(path, connect, loopback, monkeypatch):
    loopback.answers = [Answer(claude_said("hello"))]
    with nbagent.record(path):
        await Agent(connect("claude")).chat("1")
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    with nbagent.replay(path):
        agent = Agent()
        agent.provider = "claude"
        assert str(await agent.chat("1")) == "hello"
        assert agent.trace.calls["model"].tolist() == ["m1"]
    with pytest.raises(AuthenticationError):
        agent.provider = "claude"
