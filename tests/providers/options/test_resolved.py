"""Each request resolves its options once; what was resolved is what the trace says and what is sent."""

import json

import pytest
from support.loopback import Answer, said, sse
from support.small_agent import add

import nbagent
from nbagent import Agent
from nbagent.core.messages import LLMMessage
from nbagent.errors import ConfigurationError
from nbagent.providers.options.resolved import OptionsResolver

CALL = {
    "choices": [
        {
            "index": 0,
            "delta": {
                "tool_calls": [{"index": 0, "id": "c1", "function": {"name": "add", "arguments": '{"a":1,"b":2}'}}]
            },
            "finish_reason": "tool_calls",
        }
    ]
}


@pytest.fixture
def resolutions(monkeypatch):
    """The requests whose options were resolved."""
    resolved = []
    original = OptionsResolver.resolve

    def counted(self, request, stream=True):
        resolved.append(request)
        return original(self, request, stream)

    monkeypatch.setattr(OptionsResolver, "resolve", counted)
    return resolved


async def test_each_request_of_a_run_is_resolved_once(loopback, connect, resolutions):
    loopback.answers = [Answer(sse(CALL)), Answer(sse(said("3")))]
    agent = Agent(connect(), tools=[add])
    resolutions.clear()  # the provider checks its own options when it is made
    await agent.chat("What is 1 + 2?", temperature=0.5, max_tokens=99)
    assert len(resolutions) == len(loopback.requests) == 2
    for sent, params in zip(loopback.requests, agent.trace.calls["params"], strict=True):
        params = json.loads(params) if isinstance(params, str) else params
        assert {name: sent.json[name] for name in ("temperature", "max_tokens")} == {
            "temperature": 0.5,
            "max_tokens": 99,
        }
        assert params == {"temperature": 0.5, "max_tokens": 99}


async def test_a_preview_resolves_once_and_sends_nothing(loopback, connect, resolutions):
    agent = Agent(connect())
    resolutions.clear()
    assert agent.chat_stream("Hello", temperature=0.5).preview().options == {"temperature": 0.5}
    assert len(resolutions) == 1
    assert loopback.requests == []


async def test_chat_of_a_provider_resolves_once(loopback, connect, resolutions):
    loopback.answers = [Answer(sse(said("Hi.")))]
    provider = connect()
    resolutions.clear()
    assert (await provider.chat([LLMMessage("user", "Hello")], None, 0.5)).content == "Hi."
    assert len(resolutions) == len(loopback.requests) == 1


async def test_wrappers_do_not_resolve_again(loopback, connect, resolutions, tmp_path):
    loopback.answers = [Answer(sse(said("Hi.")))]
    agent = Agent(connect(function_calling=False))
    resolutions.clear()
    with nbagent.record(tmp_path / "run.jsonl"):
        await agent.chat("Hello")
    assert len(resolutions) == len(loopback.requests) == 1
    with nbagent.replay(tmp_path / "run.jsonl", "none"):
        await Agent(agent.provider).chat("Hello")
    assert len(loopback.requests) == 1


async def test_what_a_model_can_not_be_given_is_an_error_before_the_request(loopback, connect):
    agent = Agent(connect(function_calling=False), tools=[add])
    with pytest.raises(ConfigurationError, match="tool_choice: .* got 'add'"):
        await agent.chat("Hello", tool_choice="add")
    assert loopback.requests == []
