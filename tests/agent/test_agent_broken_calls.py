"""No tool call and no tool exception can break the conversation: the model reads the error and continues."""

import json

import pytest

from nbagent import Agent, FunctionCall, ScriptedProvider
from nbagent.core.messages import MAX_ARGUMENT_CHARS, MAX_ARGUMENT_DEPTH, parse_arguments


def note(a: dict) -> str:
    """Write a note."""
    return "written"


@pytest.mark.parametrize(
    ("sent", "problem"),
    [
        ('{"a": ' * (MAX_ARGUMENT_DEPTH + 1) + "1" + "}" * (MAX_ARGUMENT_DEPTH + 1), "at most 100 levels deep"),
        (json.dumps({"a": "x" * MAX_ARGUMENT_CHARS}), "shorter than 1,000,000 characters"),
    ],
    ids=["deep", "long"],
)
async def test_arguments_that_are_too_deep_or_too_long_are_errors(sent, problem):
    arguments, raw = parse_arguments(sent)
    call = FunctionCall("note", arguments, "call_1", raw)
    agent = Agent(ScriptedProvider([call, "sorry", "again"]), tools=[note])
    result = await agent.chat("go")
    assert problem in result.function_calls[0]["result"]
    assert len(result.function_calls[0]["result"]) < 2_000
    assert (await agent.chat("and now?")).content == "again"


class UnspeakableError(Exception):
    def __str__(self):
        raise ValueError("no text")


async def test_an_exception_whose_str_raises():
    def broken() -> str:
        """Fail."""
        raise UnspeakableError

    agent = Agent(ScriptedProvider([FunctionCall("broken", {}), "sorry"]), tools=[broken])
    result = await agent.chat("go")
    assert (result.status, result.content) == ("ok", "sorry")
    assert "Unspeakable" in result.function_calls[0]["result"]
    assert agent.trace.tool_calls["error_type"].tolist() == ["UnspeakableError"]
