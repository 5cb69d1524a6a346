"""The same agent code against each vendor's protocol, over real HTTP: the official SDKs and httpx against llmock."""

import pytest
from support.faults import VENDORS, WIRES

from nbagent import Agent, create_provider

#: Their own word for an answer's end is the same with calls and without.
STOPS_AT_CALLS = {"openai responses", "gemini"}


def connect(vendor, llmock):
    name, api, model, options = VENDORS[vendor]
    return create_provider(name, api_key="test", model=model, base_url=llmock.base_url(api), **options)


def get_weather(city: str) -> dict:
    """Get the current weather in a city.

    Args:
        city: name of the city
    """
    return {"city": city, "temperature": 22}


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@pytest.mark.parametrize("vendor", VENDORS)
async def test_a_two_round_tool_loop(vendor, llmock):
    agent = Agent(connect(vendor, llmock), tools=[get_weather, add], system_prompt="You help.")
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
    await agent.aclose()
    llmock.assert_resilient(strict=True)


async def test_the_vendor_can_change_in_the_middle(llmock):
    agent = Agent(tools=[get_weather, add])
    for vendor in [*WIRES] * 2:
        provider = agent.provider = connect(vendor, llmock)
        llmock.call_tool("add", {"a": 1, "b": 2}).reply(f"{vendor} says 3")
        assert (await agent.chat("1 + 2?")).content == f"{vendor} says 3"
        await provider.aclose()
    assert agent.trace.calls["provider"].unique().tolist() == ["openai", "claude", "gemini"]
