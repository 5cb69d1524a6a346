"""`trace.export` writes files for OpenAI's fine-tuning. Each line is checked with the types of OpenAI's SDK."""

import asyncio
import json

import pytest
from openai.types.chat import ChatCompletionFunctionToolParam, ChatCompletionMessageParam
from pydantic import ConfigDict, TypeAdapter
from support.loopback import Answer, Loopback, said, sse
from support.property_tools import PNG

from nbagent import Agent, FunctionCall, LLMResponse, ScriptedProvider, Trace, create_provider
from nbagent.core.content.images import Image
from nbagent.errors import ConfigurationError

EXACT = ConfigDict(extra="forbid", strict=True)
MESSAGES = TypeAdapter(list[ChatCompletionMessageParam], config=EXACT)
TOOLS = TypeAdapter(list[ChatCompletionFunctionToolParam], config=EXACT)
CALLS = [FunctionCall("double", {"x": 4}, "w1"), FunctionCall("double", {"x": "ü"}, "w2")]


def double(x: int) -> int:
    """Twice x."""
    return 2 * x


def picture() -> Image:
    """A picture."""
    return Image.from_part(PNG)


def check(value):
    """Read a validated value completely, since pydantic checks an iterable while it is read."""
    if not isinstance(value, str):
        for item in value.values() if isinstance(value, dict) else value if hasattr(value, "__iter__") else ():
            check(item)


def exported(trace, path, *selected):
    """The lines of the file, validated with OpenAI's types."""
    count = trace.export(path, *selected)
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    assert len(lines) == count
    for line in lines:
        assert line.keys() <= {"messages", "tools"}
        check(MESSAGES.validate_python(line["messages"]))
        check(TOOLS.validate_python(line.get("tools", [])))
        assert line["messages"][-1]["role"] == "assistant"
    return lines


async def test_a_line_is_the_last_request_and_its_answer(tmp_path):
    call = {"index": 0, "id": "w1", "function": {"name": "double", "arguments": '{"x":4}'}}
    calls = {"choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]}
    async with Loopback() as server:
        server.answers = [Answer(sse(each)) for each in (calls, said("It is 8: ü."), said("Bye."))]
        provider = create_provider("openai", api="chat", api_key="k", base_url=server.url, model="m")
        agent = Agent(provider, tools=[double], system_prompt="Be brief.")
        await agent.chat(["Twice 4?", PNG])
        await agent.chat("Thanks.", tools=[])
        bodies = [request.json for request in server.requests]
        await provider.aclose()
    first, second = exported(agent.trace, tmp_path / "chat.jsonl")
    assert first == {
        "messages": [*bodies[1]["messages"], {"role": "assistant", "content": "It is 8: ü."}],
        "tools": bodies[1]["tools"],
    }
    assert second == {"messages": [*bodies[2]["messages"], {"role": "assistant", "content": "Bye."}]}
    agent.trace.save(tmp_path / "t.sqlite")
    assert exported(Trace.load(tmp_path / "t.sqlite"), tmp_path / "again.jsonl") == [first, second]


async def test_thinking_is_omitted_and_images_in_results_and_answers_are_described(tmp_path):
    parts = {"parts": [{"type": "text", "text": "Here."}, PNG], "thinking": "Well, well."}
    called = LLMResponse("", [FunctionCall("picture", {}, "w1")], None, {"thinking": "Hm."})
    agent = Agent(ScriptedProvider([called, LLMResponse("Here.", None, "stop", parts)]), tools=[picture])
    await agent.chat([PNG, "Draw it again."])
    (line,) = exported(agent.trace, tmp_path / "chat.jsonl")
    question, call, result, answer = line["messages"]
    assert question["content"][0]["image_url"]["url"] == f"data:image/png;base64,{PNG['data']}"
    assert (call["tool_calls"][0]["id"], result["tool_call_id"]) == ("w1", "w1")
    for message in (result, answer):
        assert "[image: 1x1 png]" in message["content"]
    assert agent.trace.thinking["text"].tolist() == ["Hm.", "Well, well."]
    assert not any(thought in json.dumps(line) for thought in ("Hm.", "Well, well."))


async def test_only_successful_runs_are_written(tmp_path):
    async def wait(messages, functions):
        asked.set()
        await asyncio.Event().wait()

    trace, asked = Trace(), asyncio.Event()
    endings = {
        "limit": [LLMResponse("", [CALLS[0]], None), "more"],
        "truncated": [LLMResponse("Half", None, "length")],
        "blocked": [LLMResponse("No", None, "content_filter")],
        "error": [ValueError("no")],
        "made up": [LLMResponse("", [FunctionCall("what is this?", {}, "w")], None), "Sorry."],
        "cut": [LLMResponse("", [FunctionCall("double", {}, "w", raw='{"x')], None), "Sorry."],
        "ok": [LLMResponse("", CALLS, None), "Good."],
    }
    for name, turns in endings.items():
        agent = Agent(ScriptedProvider(turns), tools=[double], trace=trace)
        await asyncio.gather(agent.chat(name, max_iterations=1 if name == "limit" else 5), return_exceptions=True)
    asking = asyncio.create_task(Agent(ScriptedProvider(wait), trace=trace).chat("interrupted"))
    await asked.wait()
    assert [line["messages"][0]["content"] for line in exported(trace, tmp_path / "running.jsonl")] == ["ok"]
    asking.cancel()
    await asyncio.wait([asking])
    (line,) = exported(trace, tmp_path / "chat.jsonl")
    assert [message["role"] for message in line["messages"]] == ["user", "assistant", "tool", "tool", "assistant"]
    assert set(trace.runs["status"]) == {"limit", "truncated", "blocked", "error", "ok", "interrupted"}


async def test_runs_are_selected_by_id(tmp_path):
    agent = Agent(ScriptedProvider(["one", "two", "three"]))
    results = [await agent.chat(word) for word in ("1", "2", "3")]
    for result, value in zip(results, (1, 0, 1), strict=True):
        agent.trace.score(result.run_id, "good", value)
    good = agent.trace.scores.query("name == 'good' and value == 1")["run_id"]
    lines = exported(agent.trace, tmp_path / "chat.jsonl", good)
    assert [line["messages"][-1]["content"] for line in lines] == ["one", "three"]
    with pytest.raises(ConfigurationError, match="'run_x'"):
        agent.trace.export(tmp_path / "chat.jsonl", ["run_x"])


async def test_an_export_that_fails_raises_a_clear_error_and_changes_nothing(tmp_path):
    agent = Agent(ScriptedProvider(["Hi."]))
    path = tmp_path / "chat.jsonl"
    path.write_text("mine")
    with pytest.raises(ConfigurationError, match=r"no run ended successfully.*trace\.runs\['status'\]"):
        agent.trace.export(path)
    await agent.chat("Hello")
    with pytest.raises(ConfigurationError, match=r"ends with \.jsonl.*trace\.save"):
        agent.trace.export(tmp_path / "chat.parquet")
    with pytest.raises(ConfigurationError, match="can't be written"):
        agent.trace.export(tmp_path / "no folder" / "chat.jsonl")
    assert path.read_text() == "mine"
