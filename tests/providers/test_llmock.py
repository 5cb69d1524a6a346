"""The official SDKs and httpx against llmock, a real server that answers, calls tools and fails like the vendors."""

import pytest

from nbagent.core.events import Retry, Text
from nbagent.core.messages import LLMMessage, LLMResponse
from nbagent.errors import RateLimitError
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


async def test_chat(provider, llmock):
    llmock.reply("Hello there.")
    response = await provider.chat(HI)
    assert (response.content, response.finish_reason) == ("Hello there.", "stop")
    assert response.metadata["model"] == provider.model_name
    llmock.assert_resilient(strict=True)


async def test_stream(provider, llmock):
    llmock.reply("one two three four")
    items = [item async for item in provider.stream(HI)]
    texts = [item.content for item in items if isinstance(item, Text)]
    assert len(texts) > 1
    assert "".join(texts) == items[-1].content == "one two three four"
    assert [type(item) for item in items[-1:]] == [LLMResponse]
    assert items[-1].usage.output_tokens > 0


async def test_one_json_body_says_the_same(provider, llmock):
    llmock.reply("one two three four", times=2)
    streamed = await provider.chat(HI)
    provider.streaming = False
    whole = await provider.chat(HI)
    assert (whole.content, whole.finish_reason, whole.raw_response) == (
        streamed.content,
        streamed.finish_reason,
        streamed.raw_response,
    )


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


@pytest.mark.parametrize("fault", ["disconnect", "truncate", "corrupt"])
async def test_broken_streams_are_sent_again(provider, llmock, fault):
    text = " ".join(map(str, range(50)))
    llmock.reply(text, times=2)
    getattr(llmock, fault)(after_chunks=3)
    if fault == "corrupt":  # a server that sent the rest before we hung up would think that we read on
        llmock.pace(20)
    items = [item async for item in provider.stream(HI)]
    assert sum(isinstance(item, Retry) for item in items) == 1
    assert items[-1].content == text
    llmock.assert_resilient(strict=True)


async def test_rate_limits_are_waited_for(provider, llmock):
    llmock.rate_limit(times=2, retry_after=0.2)
    assert (await provider.chat(HI)).content
    llmock.assert_resilient(strict=True)


async def test_an_outage_is_an_error(provider, llmock):
    provider.max_retries = 1
    llmock.rate_limit(times=None, retry_after=0.05)
    with pytest.raises(RateLimitError):
        await provider.chat(HI)


async def test_models_are_listed(provider, llmock):
    names = await provider.model_list()
    assert len(names) > 1
    assert names == sorted(set(names))
    assert not any(name.startswith("models/") for name in names)
    llmock.assert_resilient(strict=True)
