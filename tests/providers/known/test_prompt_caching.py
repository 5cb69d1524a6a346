"""Hits in providers' prompt caches: stable prefixes, Anthropic's breakpoints, and their traces and prices."""

import json

import pytest
from support.loopback import Answer, claude_said

from nbagent import Agent, create_provider
from nbagent.core.messages import FunctionCall, LLMMessage
from nbagent.core.model_request import ModelRequest
from nbagent.errors import ConfigurationError
from nbagent.providers.catalog import CATALOG
from nbagent.providers.formats.anthropic import MessagesCodec
from nbagent.providers.formats.gemini import GeminiCodec
from nbagent.providers.formats.openai_chat import ChatCodec
from nbagent.providers.formats.openai_responses import ResponsesCodec
from nbagent.providers.options.resolved import ResolvedOptions

SYSTEM = LLMMessage("system", "Be brief.")
ADD = {"name": "add", "description": "Add.", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}}
PNG = {"type": "image", "media_type": "image/png", "data": "aWNvbg=="}
CODECS = {
    "chat": ChatCodec(CATALOG["openai"]),
    "deepseek": ChatCodec(CATALOG["deepseek"]),
    "responses": ResponsesCodec(CATALOG["openai"]),
    "messages": MessagesCodec(CATALOG["claude"], False),
    "marked messages": MessagesCodec(CATALOG["claude"]),
    "gemini": GeminiCodec(CATALOG["gemini"]),
}


def conversation(rounds):
    """A tool loop with two calls each round, one with an image in its result, then an answer and a new prompt."""
    messages = [SYSTEM, LLMMessage("user", "Add things.")]
    for n in range(rounds):
        calls = [FunctionCall("add", {"a": n}, f"c{n}a"), FunctionCall("add", {"a": -n}, f"c{n}b")]
        messages.append(LLMMessage("assistant", f"Round {n}.", tool_calls=calls))
        shown = [{"type": "text", "text": "a plot"}, PNG]
        messages.append(LLMMessage("tool", shown if n % 2 else "1", name="add", tool_call_id=f"c{n}a"))
        messages.append(LLMMessage("tool", "2", name="add", tool_call_id=f"c{n}b"))
        if n % 3 == 2:
            messages += [LLMMessage("assistant", "Done."), LLMMessage("user", f"Go on with {n}.")]
    return messages


def marks_of(raw):
    """The breakpoints of a body in the prompt's order, each with its block."""
    body = json.loads(raw)
    found = []

    def walk(node):
        if isinstance(node, dict):
            for key, value in node.items():
                if key != "cache_control":
                    walk(value)
            if "cache_control" in node:
                found.append((node["cache_control"].get("ttl", "5m"), node.get("name") or node.get("type")))
        elif isinstance(node, list):
            for item in node:
                walk(item)

    for part in ("tools", "system", "messages"):
        walk(body.get(part))
    if "cache_control" in body:
        found.append((body["cache_control"].get("ttl", "5m"), "the whole"))
    return found


def test_places_of_our_breakpoints():
    raw = CODECS["marked messages"].encode_request(conversation(3), ResolvedOptions([ADD]), "m1")
    assert marks_of(raw) == [("5m", "add"), ("5m", "text"), ("5m", "tool_result"), ("5m", "text")]
    raw = MessagesCodec(CATALOG["claude"], "1h").encode_request(conversation(3), ResolvedOptions([ADD]), "m1")
    assert [ttl for ttl, _ in marks_of(raw)] == ["1h"] * 4
    raw = CODECS["messages"].encode_request(conversation(3), ResolvedOptions([ADD]), "m1")
    assert marks_of(raw) == []


@pytest.mark.parametrize(
    ("provider", "options", "marks"),
    [
        ("claude", {}, ["5m"]),
        ("claude", {"cache": "1h"}, ["1h"]),
        ("claude", {"cache": False}, []),
        ("minimax", {}, ["5m"]),
        ("minimax", {"cache": False}, []),
    ],
)
async def test_the_cache_option(loopback, connect, provider, options, marks):
    loopback.answers = [Answer(claude_said("Good."))]
    await connect(provider, **options).chat([LLMMessage("user", "hi")])
    assert [ttl for ttl, _ in marks_of(loopback.requests[0].body)] == marks


@pytest.mark.parametrize(("provider", "cache"), [("claude", "24h"), ("minimax", "1h"), ("claude", 5)])
def test_other_lifetimes_are_refused(provider, cache):
    with pytest.raises(ConfigurationError, match=f"True, False.*'5m'.*{cache!r}"):
        create_provider(provider, api_key="k", cache=cache)


def claude_usage(**usage):
    start, *others = claude_said("Good.").split(b"\n\n", 1)
    event = json.loads(start.split(b"data: ")[1])
    event["message"]["usage"] = {"input_tokens": 100, "output_tokens": 1, **usage}
    event["message"]["model"] = "claude-sonnet-5"
    return b"event: message_start\ndata: " + json.dumps(event).encode() + b"\n\n" + b"".join(others)


async def test_cache_hits_are_in_the_trace(loopback, connect):
    loopback.answers = [
        Answer(claude_usage(cache_creation_input_tokens=2000, cache_read_input_tokens=0)),
        Answer(claude_usage(cache_creation_input_tokens=50, cache_read_input_tokens=2000)),
    ]
    agent = Agent(connect("claude", model="claude-sonnet-5"))
    await agent.chat("hi")
    await agent.chat("and?")
    columns = ["input_tokens", "cache_read_tokens", "cache_write_tokens"]
    assert agent.trace.calls[columns].values.tolist() == [[2100, 0, 2000], [2150, 2000, 50]]
    assert agent.trace.calls["cache_hit"].tolist() == [False, True]
    assert agent.trace.usage[columns].sum().tolist() == [4250, 2000, 2050]
    # $2 a million in, $2.50 written, $0.20 read, $10 out
    first, second = agent.trace.calls["cost_usd"]
    assert first == pytest.approx((100 * 2 + 2000 * 2.5 + 10) / 1e6)
    assert second == pytest.approx((100 * 2 + 50 * 2.5 + 2000 * 0.2 + 10) / 1e6)
    assert agent.trace.runs["cost_usd"].sum() == pytest.approx(first + second)


async def test_caching_for_an_hour_costs_more(loopback, connect):
    written = {"ephemeral_5m_input_tokens": 500, "ephemeral_1h_input_tokens": 1500}
    loopback.answers = [
        Answer(claude_usage(cache_creation_input_tokens=2000, cache_read_input_tokens=0, cache_creation=written))
    ]
    agent = Agent(connect("claude", model="claude-sonnet-5", cache="1h"))
    result = await agent.chat("hi")
    assert result.cost == pytest.approx((100 * 2 + 500 * 2.5 + 1500 * 4 + 10) / 1e6)


@pytest.mark.parametrize("name", CODECS)
def test_a_reminder_comes_after_everything_cached(name):
    """A request is the same byte for byte up to its reminder, including breakpoints."""
    codec, messages = CODECS[name], conversation(8)
    (reminder,) = ModelRequest(messages, reminder="Two steps are left.").reminder_messages
    for end in range(2, len(messages)):
        if messages[end - 1].role != "assistant":
            reminded = codec.encode_request(messages[:end], ResolvedOptions([ADD]), "m1", None, [reminder])
            plain = codec.encode_request(messages[:end], ResolvedOptions([ADD]), "m1")
            assert reminded.startswith(plain.rstrip(b'"]}'))
            assert reminded.count(b"cache_control") == plain.count(b"cache_control")
            assert reminded.rstrip(b"]}").endswith(b'Two steps are left.\\n</reminder>"')
            json.loads(reminded)
