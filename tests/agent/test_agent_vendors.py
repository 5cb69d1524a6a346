"""The same agent code against each vendor's protocol, over real HTTP: the official SDKs and httpx against llmock."""

import base64
import json

import pytest

from nbagent import Agent, LLMResponse, ScriptedProvider, create_provider

VENDORS = {
    "openai": ("openai", "gpt-5.6-luna"),
    "openai responses": ("openai", "gpt-5.6-luna"),
    "claude": ("anthropic", "claude-sonnet-5"),
    "open_source": ("openai", "qwen"),
    "gemini": ("gemini", "gemini-2.5-pro"),
}
#: Their own word for an answer's end is the same with calls and without.
STOPS_AT_CALLS = {"openai responses", "gemini"}


def connect(vendor, llmock, **options):
    """A provider by its name, and by OpenAI's API where that is named too."""
    family, model = VENDORS.get(vendor, ("anthropic", "MiniMax-M2.5"))
    name, _, api = vendor.partition(" ")
    options |= {"api": api} if api else {}
    return create_provider(name, api_key="test", model=model, base_url=llmock.base_url(family), **options)


@pytest.fixture(params=[*VENDORS, "minimax"])
def vendor(request):
    return request.param


@pytest.fixture(params=[True, False], ids=["streaming", "whole"])
async def agent(request, vendor, llmock):
    provider = connect(vendor, llmock, streaming=request.param)
    yield Agent(provider, tools=[get_weather, add], system_prompt="You help.")
    await provider.aclose()


def get_weather(city: str) -> dict:
    """Get the current weather in a city.

    Args:
        city: name of the city
    """
    return {"city": city, "temperature": 22}


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def two_calls(llmock):
    from llmock.scenarios import Reply, ToolCall

    calls = (ToolCall("get_weather", {"city": "Berlin"}), ToolCall("add", {"a": 1, "b": 2}))
    llmock.add(Reply(text=None, tool_calls=calls))


async def test_chat(agent, llmock):
    llmock.reply("Hello **you**.")
    result = await agent.chat("Hi")
    assert (result.content, result.status, result.iterations) == ("Hello **you**.", "ok", 1)
    assert result.finish_reason == "stop"
    assert result.usage.input_tokens > 0
    assert result.usage.output_tokens > 0
    llmock.assert_resilient(strict=True)


async def test_stream(agent, llmock):
    llmock.reply("one two three four five six seven")
    pieces = [e.content async for e in agent.chat_stream("count") if e.type == "text"]
    assert "".join(pieces) == "one two three four five six seven"
    if agent.provider.streaming:
        assert len(pieces) > 1


async def test_a_two_round_tool_loop(agent, vendor, llmock):
    llmock.call_tool("get_weather", {"city": "Berlin"}).call_tool("add", {"a": 20, "b": 2}).reply("It is 22 degrees.")
    result = await agent.chat("How warm is it in Berlin?")
    assert [(c["name"], c["arguments"], c["result"]) for c in result.function_calls] == [
        ("get_weather", {"city": "Berlin"}, '{"city": "Berlin", "temperature": 22}'),
        ("add", {"a": 20, "b": 2}, "22"),
    ]
    assert (result.content, result.iterations) == ("It is 22 degrees.", 3)
    called = "stop" if vendor in STOPS_AT_CALLS else "tool_calls"
    assert agent.trace.calls["finish_reason"].tolist() == [called, called, "stop"]
    llmock.reply("You are welcome.")
    assert (await agent.chat("Thanks")).content == "You are welcome."
    llmock.assert_resilient(strict=True)


async def test_two_parallel_calls(agent, llmock):
    two_calls(llmock)
    llmock.reply("Done.")
    result = await agent.chat("Weather and a sum?")
    assert [(c["name"], c["is_error"]) for c in result.function_calls] == [("get_weather", False), ("add", False)]
    assert result.content == "Done."
    roles = [m.role for m in agent.conversation_history]
    assert roles == ["system", "user", "assistant", "tool", "tool", "assistant"]


async def test_what_the_vendor_was_sent(agent, vendor, llmock):
    llmock.call_tool("add", {"a": 1, "b": 2}).reply("3")
    await agent.chat("1 + 2?")
    body = llmock.requests[-1].body if hasattr(llmock.requests[-1], "body") else None
    body = json.loads(body) if isinstance(body, str | bytes) else body
    tools = body["tools"][0]["functionDeclarations"] if vendor == "gemini" else body["tools"]
    tool_names = [t.get("name") or t["function"]["name"] for t in tools]
    assert tool_names == ["get_weather", "add"]
    if vendor == "gemini":
        assert body["systemInstruction"] == {"parts": [{"text": "You help."}]}
        assert [c["role"] for c in body["contents"]] == ["user", "model", "user"]
        assert body["contents"][1]["parts"] == [{"functionCall": {"name": "add", "args": {"a": 1, "b": 2}}}]
        assert body["contents"][2]["parts"] == [{"functionResponse": {"name": "add", "response": {"output": "3"}}}]
    elif vendor in ("claude", "minimax"):
        assert "You help." in json.dumps(body["system"])
        assert [m["role"] for m in body["messages"]] == ["user", "assistant", "user"]
        assert body["messages"][2]["content"][0]["type"] == "tool_result"
    elif vendor == "openai responses":
        kinds = [item.get("role") or item["type"] for item in body["input"]]
        assert kinds == ["system", "user", "function_call", "function_call_output"]
        assert json.loads(body["input"][2]["arguments"]) == {"a": 1, "b": 2}
    else:
        assert [m["role"] for m in body["messages"]] == ["system", "user", "assistant", "tool"]
        assert json.loads(body["messages"][2]["tool_calls"][0]["function"]["arguments"]) == {"a": 1, "b": 2}


async def test_the_vendor_can_change_in_the_middle(llmock):
    agent = Agent(tools=[get_weather, add])
    for vendor in [*VENDORS] * 2:
        provider = agent.provider = connect(vendor, llmock)
        llmock.call_tool("add", {"a": 1, "b": 2}).reply(f"{vendor} says 3")
        assert (await agent.chat("1 + 2?")).content == f"{vendor} says 3"
        await provider.aclose()
    assert agent.trace.calls["provider"].unique().tolist() == ["openai", "claude", "open_source", "gemini"]


async def test_the_vendor_can_change_in_the_middle_with_images(llmock):
    gif = b"GIF89a" + bytes([3, 0, 2, 0])
    part = {"type": "image", "media_type": "image/gif", "data": base64.b64encode(gif).decode()}

    def plot() -> list:
        """Plot it."""
        return [part]

    agent = Agent(tools=[plot])
    for number, vendor in enumerate([*VENDORS] * 2):
        provider = agent.provider = connect(vendor, llmock)
        llmock.call_tool("plot", {}).reply(f"{vendor} sees it")
        result = await agent.chat(["What is this? Plot it.", gif])
        assert result.content == f"{vendor} sees it"
        body = json.dumps(llmock.requests[-1].body)
        assert body.count(part["data"]) == 3 * number + 2, "each turn's question, result and drawn answer"
        await provider.aclose()
        agent.provider = ScriptedProvider([LLMResponse("Drawn.", None, "stop", {"parts": [part]})])
        assert (await agent.chat("Draw it.")).images[0].data == gif
    llmock.assert_resilient(strict=True)
