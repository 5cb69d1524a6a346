"""Tools for LangChain, the OpenAI Agents SDK and Pydantic AI, created with the real packages, in an agent's runs."""

import importlib

import pytest

from nbagent import Agent, FunctionCall, ScriptedProvider, from_langchain, from_openai_agents, from_pydantic_ai
from nbagent.errors import ConfigurationError


@pytest.fixture(scope="module")
def foreign():
    """Imported where a test needs it, not by each process that collects tests."""
    return importlib.import_module("support.foreign_tools")


async def called(tool, **arguments):
    """The one call of a run, with this tool as the agent's only one."""
    agent = Agent(ScriptedProvider([]), tools=[tool], approve=lambda call, definition: True)
    (offered,) = agent.function_registry.list_functions()
    agent.provider = ScriptedProvider([FunctionCall(offered["name"], arguments), "done"])
    result = await agent.chat("Go")
    return result.function_calls[0], offered, agent


# -- LangChain --------------------------------------------------------------------------------------------------------


async def test_a_langchain_tool(foreign):
    call, offered, _ = await called(from_langchain(foreign.forecast), city="Rome")
    assert call["result"] == '{"city": "Rome", "days": 1, "thread": false}'
    assert offered["description"] == "Tell the weather."
    assert offered["parameters"]["properties"]["city"] == {"description": "The city", "title": "City", "type": "string"}
    call, _, agent = await called(from_langchain(foreign.forecast), days="many")
    assert "city: required field is missing" in call["result"]
    assert list(agent.trace.tool_calls["args_valid"]) == [False]


async def test_an_async_langchain_tool_with_injected_arguments(foreign):
    call, offered, _ = await called(from_langchain(foreign.aforecast), city="Rome")
    assert call["result"] == "Rome s True"
    assert list(offered["parameters"]["properties"]) == ["city"]


async def test_a_subclass_of_base_tool_and_its_errors(foreign):
    call, _, _ = await called(foreign.Reversed(), text="abc")
    assert call["result"] == "cba"
    call, _, _ = await called(foreign.Reversed(), text="")
    assert call["is_error"]
    assert "nothing to reverse" in call["result"]
    call, _, _ = await called(foreign.Reversed(handle_tool_error=True), text="")
    assert call["result"] == "nothing to reverse"


async def test_options(foreign):
    asked = []
    agent = Agent(
        ScriptedProvider([FunctionCall("forecast", {"city": "Rome"}), "done"]),
        tools=[from_langchain(foreign.forecast, approve=True, timeout=3)],
        approve=lambda call, definition: asked.append((call.name, definition.timeout)),
    )
    result = await agent.chat("Go")
    assert asked == [("forecast", 3)]
    assert "not approved" in result.function_calls[0]["result"]
    with pytest.raises(ConfigurationError, match="option"):
        from_langchain(foreign.forecast, aprove=True)


# -- the OpenAI Agents SDK --------------------------------------------------------------------------------------------


async def test_an_openai_function_tool(foreign):
    call, offered, agent = await called(
        from_openai_agents(foreign.book, context={"user": "ada"}), city="Rome", nights=1
    )
    assert call["result"] == "Rome 1 ada True"
    assert offered["description"] == "Book a room."
    assert offered["parameters"]["properties"]["city"] == {"description": "Where.", "title": "City", "type": "string"}
    assert list(agent.trace.tool_calls["approval"]) == ["approved"]
    definition = agent.function_registry.get_function("book")
    assert (definition.approve, definition.timeout) == (True, 5)
    assert from_openai_agents(foreign.book, approve=False).approve is False


async def test_errors_of_an_openai_function_tool(foreign):
    call, _, _ = await called(foreign.fail, x=3)
    assert call["is_error"]
    assert "LookupError: no 3" in call["result"]


# -- Pydantic AI ------------------------------------------------------------------------------------------------------


async def test_a_pydantic_ai_tool(foreign):
    made = from_pydantic_ai(foreign.pydantic_roll, deps={"name": "ada"})
    assert (made.approve, made.timeout, made.parallel) == (True, 4, False)
    call, offered, _ = await called(made, sides=6)
    assert call["result"] == "ada 6 roll"
    assert offered["parameters"]["properties"] == {"sides": {"description": "How many sides.", "type": "integer"}}
    call, _, _ = await called(made, sides=1)
    assert "a die has two sides at least" in call["result"]


# -- all --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("convert", [from_langchain, from_openai_agents, from_pydantic_ai])
def test_anything_else_is_refused(convert, foreign):
    for other in (print, "forecast", foreign.Reversed):
        with pytest.raises(ConfigurationError, match=rf"{convert.__name__}: expected"):
            convert(other)
