"""No tool call and no exception of a tool can break the conversation: each is told to the model, and it goes on."""

import json

import pytest

from nbagent import Agent, FunctionCall, ScriptedProvider
from nbagent.core.messages import MAX_ARGUMENT_CHARS, MAX_ARGUMENT_DEPTH, parse_arguments
from nbagent.providers.catalog import CATALOG
from nbagent.providers.formats.anthropic import MessagesCodec
from nbagent.providers.formats.gemini import GeminiCodec
from nbagent.providers.formats.openai_chat import ChatCodec
from nbagent.providers.formats.openai_responses import ResponsesCodec
from nbagent.providers.options.resolved import ResolvedOptions

CODECS = [
    ChatCodec(CATALOG["zhipu"]),
    MessagesCodec(CATALOG["claude"]),
    GeminiCodec(CATALOG["gemini"]),
    ResponsesCodec(CATALOG["openai"]),
]


def nested(depth):
    return '{"a": ' * depth + "1" + "}" * depth


def note(a: dict) -> str:
    """Write a note."""
    return "written"


TOO_DEEP, TOO_LONG = "at most 100 levels deep", "shorter than 1,000,000 characters"


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        pytest.param(nested(MAX_ARGUMENT_DEPTH + 1), TOO_DEEP, id="deep"),
        pytest.param(json.dumps({"a": "x" * MAX_ARGUMENT_CHARS}), TOO_LONG, id="long"),
    ],
)
async def test_arguments_that_are_too_deep_or_too_long(sent, told):
    arguments, raw = parse_arguments(sent)
    assert arguments == {}
    call = FunctionCall("note", arguments, "call_1", raw)
    agent = Agent(ScriptedProvider([call, "sorry", "again"]), tools=[note])
    result = await agent.chat("go")
    assert told in result.function_calls[0]["result"]
    assert len(result.function_calls[0]["result"]) < 2_000
    assert (await agent.chat("and now?")).content == "again"
    for codec in CODECS:
        assert codec.encode_request(agent.conversation_history, ResolvedOptions(None), "m")
    assert not agent.trace.tool_calls["args_valid"].any()


class UnspeakableError(Exception):
    def __str__(self):
        raise ValueError("no text")


async def test_an_exception_that_breaks_whoever_shows_it():
    def broken() -> str:
        """Fail."""
        raise UnspeakableError

    agent = Agent(ScriptedProvider([FunctionCall("broken", {}), "sorry"]), tools=[broken])
    result = await agent.chat("go")
    assert (result.status, result.content) == ("ok", "sorry")
    assert "Unspeakable" in result.function_calls[0]["result"]
    assert agent.trace.tool_calls["error_type"].tolist() == ["UnspeakableError"]
