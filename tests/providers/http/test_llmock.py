"""The official SDKs and httpx against llmock, a real server that answers and calls tools like the vendors.

How it fails is in `tests/agent/test_agent_faults.py`.
"""

import pytest
from support.requests import streamed

from nbagent.core.events import Text
from nbagent.core.messages import LLMMessage
from nbagent.providers import create_provider

VENDORS = {
    "openai": ("openai", "gpt-4o-mini"),
    "claude": ("anthropic", "claude-sonnet-5"),
    "open_source": ("openai", "qwen"),
    "gemini": ("gemini", "gemini-2.5-pro"),
}
WEATHER = {
    "name": "get_weather",
    "description": "The weather in a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
HI = [LLMMessage("system", "Be brief."), LLMMessage("user", "hi")]


@pytest.fixture(params=VENDORS)
async def provider(request, llmock):
    api, model = VENDORS[request.param]
    made = create_provider(request.param, api_key="k", model=model, base_url=llmock.base_url(api))
    yield made
    await made.aclose()


async def test_streamed_and_as_one_json_body(provider, llmock):
    llmock.reply("one two three four", times=2)
    *items, response = [item async for item in streamed(provider, HI)]
    texts = [item.content for item in items if isinstance(item, Text)]
    assert len(texts) > 1
    assert "".join(texts) == response.content == "one two three four"
    assert (response.finish_reason, response.metadata["model"]) == ("stop", provider.model_name)
    assert response.usage.output_tokens > 0
    provider.streaming = False
    whole = await provider.chat(HI)
    assert (whole.content, whole.finish_reason, whole.raw_response) == (
        response.content,
        response.finish_reason,
        response.raw_response,
    )
    llmock.assert_resilient(strict=True)


async def test_tool_round_trip(provider, llmock):
    llmock.call_tool("get_weather", {"city": "Paris"})
    response = await provider.chat(HI, [WEATHER])
    (call,) = response.function_calls
    assert (call.name, call.arguments, call.raw, response.finish_reason) == (
        "get_weather",
        {"city": "Paris"},
        None,
        "stop" if provider.vendor == "gemini" else "tool_calls",
    )
    answered = [
        *HI,
        LLMMessage("assistant", response.content, tool_calls=[call], provider_extras=response.raw_response),
        LLMMessage("tool", "sunny", tool_call_id=call.id, name=call.name),
    ]
    final = await provider.chat(answered, [WEATHER])
    assert final.content
    assert not final.function_calls
    assert final.finish_reason == "stop"


async def test_malformed_arguments_are_kept_as_text(provider, llmock):
    llmock.break_tool_call("malformed_arguments")
    response = await provider.chat([LLMMessage("user", "weather in Paris?")], [WEATHER])
    (call,) = response.function_calls
    assert call.arguments == {}
    assert call.raw or provider.vendor == "gemini"  # whose arguments never are text


async def test_models_are_listed(provider, llmock):
    names = await provider.model_list()
    assert len(names) > 1
    assert names == sorted(set(names))
    assert not any(name.startswith("models/") for name in names)
    llmock.assert_resilient(strict=True)
