"""`ContextManager(strategy="server")`: the provider summarises long conversations if it can."""

import json

import pytest
from support.loopback import Answer, Loopback, claude_said, responses_said
from support.provider_answers import claude_stream, responses_stream

from nbagent import Agent, ContextManager, LLMMessage, create_provider
from nbagent.providers.formats.anthropic import usage_of

SUMMARY = {"type": "compaction", "content": "They asked about Ruby.", "encrypted_content": "EugCCio="}
COMPACTED = claude_stream(SUMMARY, {"type": "text", "text": "Yes."})
ITEM = {"id": "cmp_1", "type": "compaction", "encrypted_content": "gAAAAAB0Sum"}
ANSWER = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "Yes.", "annotations": [], "logprobs": []}],
}
#: By provider: its model, an answer with a summary, another answer, and what must come back.
PROVIDERS = {
    "claude": ("claude-sonnet-5", COMPACTED, claude_said("Fine."), SUMMARY),
    "openai": ("gpt-5.6-terra", responses_stream(ITEM, ANSWER), responses_said("Fine."), ITEM),
}
ASKED = {
    "claude": {
        "edits": [
            {"type": "clear_tool_uses_20250919", "trigger": {"type": "input_tokens", "value": 60_000}},
            {"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 80_000}},
        ]
    },
    "openai": [{"type": "compaction", "compact_threshold": 80_000}],
}


@pytest.fixture
async def server():
    async with Loopback() as loopback:
        yield loopback


def agent_of(provider_name, server, tokens=80_000, model=None):
    more = {"api": "responses"} if provider_name == "openai" else {}
    url = server.url + ("" if provider_name == "claude" else "/v1")
    provider = create_provider(
        provider_name, model=model or PROVIDERS[provider_name][0], api_key="test-key", base_url=url, **more
    )
    return Agent(provider, context=ContextManager(max_tokens=tokens, strategy="server"))


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_the_provider_summarises_and_receives_its_summary(provider, server):
    _, compacted, fine, summary = PROVIDERS[provider]
    server.answers = [Answer(compacted), Answer(fine)]
    agent = agent_of(provider, server)
    await agent.chat("Are you sure?")
    await agent.chat("Really?")
    await agent.aclose()
    first, second = server.requests
    assert first.json["context_management"] == second.json["context_management"] == ASKED[provider]
    if provider == "claude":
        assert first.headers["anthropic-beta"] == "context-management-2025-06-27,compact-2026-01-12"
    assert json.dumps(summary, separators=(",", ":")) in second.body.decode()
    assert "the provider summarised the conversation so far" in agent.trace.events["content"].tolist()
    (block,) = agent.trace.blocks.query("type == 'compaction'")["text"]
    assert block == summary.get("content", "")
    assert [message.text for message in agent.conversation_history] == ["Are you sure?", "Yes.", "Really?", "Fine."]


async def test_another_provider_receives_the_whole_conversation(server):
    server.answers = [Answer(COMPACTED), Answer(responses_said("Fine."))]
    agent = agent_of("claude", server)
    await agent.chat("Are you sure?")
    agent.provider = agent_of("openai", server).provider
    await agent.chat("Really?")
    await agent.aclose()
    sent = server.requests[1].json
    assert [item["content"] for item in sent["input"]] == ["Are you sure?", "Yes.", "Really?"]
    assert sent["context_management"] == ASKED["openai"]
    assert "anthropic-beta" not in server.requests[1].headers


@pytest.mark.parametrize(("tokens", "model"), [(40_000, None), (80_000, "claude-haiku-4-5")])
async def test_if_the_provider_cannot_summarise_the_model_does(tokens, model, server):
    server.answers = [Answer(claude_said("They spoke at length.")), Answer(claude_said("Fine."))]
    agent = agent_of("claude", server, tokens, model)
    agent.context.messages += [LLMMessage("user", "words " * 60_000), LLMMessage("assistant", "Oh.")]
    await agent.chat("Really?")
    await agent.aclose()
    assert [("context_management" in each.json) for each in server.requests] == [False, False]
    assert "They spoke at length." in server.requests[1].body.decode()
    assert agent.conversation_history[0].is_summary


def test_a_summarys_tokens_count():
    summary = {"type": "compaction", "input_tokens": 180_000, "output_tokens": 3_500}
    message = {"type": "message", "input_tokens": 23_000, "output_tokens": 1_000}
    usage = usage_of({"input_tokens": 23_000, "output_tokens": 1_000, "iterations": [summary, message]})
    assert (usage.input_tokens, usage.output_tokens) == (203_000, 4_500)
