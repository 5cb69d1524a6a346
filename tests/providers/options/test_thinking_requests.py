"""The effects of thinking on the rest of a request: temperature, streams, the trace, refusals."""

import json

import pytest
from support.loopback import Answer, claude_said, responses_said, said, sse
from support.requests import streamed

from nbagent import Agent, create_provider
from nbagent.core.events import Retry
from nbagent.core.messages import LLMMessage
from nbagent.core.model_request import ModelRequest

HI = [LLMMessage("user", "hi")]
ADAPTIVE = {"type": "adaptive", "display": "summarized"}
BOUND = ADAPTIVE | {"block_binding": {"prefix_mismatch_behavior": "drop_block"}}


def made(spec, **options):
    return create_provider(spec, api_key="test-key", **options)


def effort(word, thinking=ADAPTIVE):
    return {"thinking": thinking, "output_config": {"effort": word}}


#: model, options, temperature given -> sent?
TEMPERATURES = [
    ("openai:gpt-5.6-terra", {}, False),
    ("openai:gpt-5.6-terra", {"thinking": False}, True),
    ("openai:gpt-5.6-terra", {"extra_body": {"reasoning": {"effort": "none"}}}, True),
    ("openai:gpt-5.4", {"thinking": "low"}, False),
    ("openai:gpt-4o-mini", {}, True),
    ("claude:claude-sonnet-5", {"thinking": False}, False),
    ("claude:claude-opus-4-6", {}, True),
    ("claude:claude-opus-4-6", {"thinking": "low"}, False),
    ("claude:claude-haiku-4-5", {"thinking": {"type": "enabled", "budget_tokens": 2000}}, False),
    ("gemini:gemini-3.7-flash", {}, True),
]


def test_a_temperature_is_sent_where_it_is_accepted():
    for each in TEMPERATURES:
        check_temperature(*each)


def check_temperature(spec, options, taken):
    for provider, given in ((made(spec), 0.5), (made(spec, temperature=0.5), None)):
        request = provider.resolve(ModelRequest(HI, options={**options, "temperature": given}))
        body = json.loads(provider._encode(request, {}))
        assert body.get("generationConfig", body).get("temperature") == (0.5 if taken else None)
        assert bool(request.resolved.left_out) is not taken
    body = json.loads(provider._encode(made(spec).resolve(ModelRequest(HI, options=options)), {}))
    assert "temperature" not in body.get("generationConfig", body)


async def test_an_omitted_temperature_is_reported_once(loopback, connect):
    loopback.answers = [Answer(sse(said("Good.")))]
    agent = Agent(connect("openai", model="gpt-5.6-terra", api="chat"))
    for temperature in (0.0, 0.0, 0.7):
        await agent.chat("hi", temperature=temperature)
    notes = agent.trace.events.query("type == 'http'")["content"].tolist()
    assert [text.partition(": ")[2] for text in notes] == ["0.0 is not sent.", "0.7 is not sent."]
    assert all("temperature" not in request.json for request in loopback.requests)
    assert [json.loads(params)["temperature"] for params in agent.trace.calls["params"]] == [None] * 3


async def test_the_trace_has_the_thinking_level(loopback, connect):
    loopback.answers = [Answer(claude_said("Good."))]
    agent = Agent(connect("claude", model="claude-opus-5"))
    for thinking in (None, "minimal", True, False, {"type": "adaptive"}):
        await agent.chat("hi", thinking=thinking)
    levels = agent.trace.calls["thinking_level"]
    assert levels.isna().tolist() == [True, False, False, False, False]
    assert levels.tolist()[1:] == ["low", "on", "off", "custom"]
    sent = [request.json["thinking"] for request in loopback.requests]
    assert sent == [ADAPTIVE, ADAPTIVE, ADAPTIVE, {"type": "disabled"}, {"type": "adaptive"}]
    assert json.loads(agent.trace.calls["params"][1])["output_config"] == {"effort": "low"}


@pytest.mark.parametrize(
    ("model", "thinking", "streaming", "streamed"),
    [("qwen3.7-plus", None, False, True), ("qwen3.7-plus", False, False, False), ("qwen-plus", "low", False, True)],
)
async def test_qwen_streams_when_it_thinks(loopback, connect, model, thinking, streaming, streamed):
    loopback.answers = [Answer(sse(said("Good.")))]
    provider = connect("qwen", model=model, thinking=thinking, streaming=streaming)
    assert (await provider.chat(HI)).content == "Good."
    assert loopback.requests[0].json["stream"] is streamed
    assert ("stream_options" in loopback.requests[0].json) is streamed


UNVERIFIED = {
    "message": "Your organization must be verified to generate reasoning summaries. Please go to: "
    "https://platform.openai.com/settings/organization/general and click on Verify Organization.",
    "type": "invalid_request_error",
    "param": "reasoning.summary",
    "code": "unsupported_value",
}
#: provider, model, the provider's error -> what is sent instead
RESCUES = [
    ("openai", "gpt-5.6-sol", {"error": UNVERIFIED}, {"reasoning": {"effort": "high"}}),
    ("claude", "claude-opus-5-5", "thinking.adaptive.block_binding: Extra inputs are not permitted", effort("high")),
    ("claude", "claude-opus-9", "This model does not support the effort parameter.", {"thinking": BOUND}),
]


@pytest.mark.parametrize(("provider_name", "model", "error", "instead"), RESCUES)
async def test_unexpected_refusals_are_learned(loopback, connect, provider_name, model, error, instead):
    body = {"type": "error", "error": {"type": "invalid_request_error", "message": error}}
    refusal = json.dumps(body if isinstance(error, str) else error).encode()
    good = claude_said("Good.") if provider_name == "claude" else responses_said("Good.")
    loopback.answers = [Answer(refusal, 400, {"content-type": "application/json"}), Answer(good)]
    options = {"api": "responses"} if provider_name == "openai" else {}
    provider = connect(provider_name, model=model, thinking="high", **options)
    items = [item async for item in streamed(provider, HI)]
    assert items[-1].content == "Good."
    assert sum(isinstance(item, Retry) for item in items) == 1
    sent = loopback.requests[1].json
    assert {name: sent[name] for name in ("thinking", "output_config", "reasoning") if name in sent} == instead
