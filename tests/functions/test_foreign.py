"""Tools written for LangChain, the OpenAI Agents SDK and Pydantic AI, by the real packages, in runs of an agent."""

import asyncio
import threading
from typing import Annotated

import agents
import pytest
from langchain_core.tools import BaseTool, InjectedToolArg, ToolException
from langchain_core.tools import tool as langchain_tool
from pydantic import BaseModel, Field
from pydantic_ai import ModelRetry, RunContext
from pydantic_ai import Tool as PydanticTool

from nbagent import Agent, FunctionCall, ScriptedProvider, from_langchain, from_openai_agents, from_pydantic_ai
from nbagent.errors import ConfigurationError


async def called(tool, **arguments):
    """The one call of a run, with this tool as the agent's only one."""
    agent = Agent(ScriptedProvider([]), tools=[tool], approve=lambda call, definition: True)
    (offered,) = agent.function_registry.list_functions()
    agent.provider = ScriptedProvider([FunctionCall(offered["name"], arguments), "done"])
    result = await agent.chat("Go")
    return result.function_calls[0], offered, agent


# -- LangChain --------------------------------------------------------------------------------------------------------


class Weather(BaseModel):
    city: str = Field(description="The city")
    days: int = 1


@langchain_tool(args_schema=Weather)
def forecast(city: str, days: int) -> dict:
    """Tell the weather."""
    return {"city": city, "days": days, "thread": threading.current_thread() is threading.main_thread()}


@langchain_tool
async def aforecast(city: str, secret: Annotated[str, InjectedToolArg] = "s") -> str:
    """Tell the weather."""
    await asyncio.sleep(0)
    return f"{city} {secret} {threading.current_thread() is threading.main_thread()}"


class Reversed(BaseTool):
    name: str = "reversed"
    description: str = "Reverse a text."

    def _run(self, text: str) -> str:
        if not text:
            raise ToolException("nothing to reverse")
        return text[::-1]


async def test_a_langchain_tool_is_a_tool():
    call, offered, _ = await called(from_langchain(forecast), city="Rome")
    assert call["result"] == '{"city": "Rome", "days": 1, "thread": false}'
    assert offered["description"] == "Tell the weather."
    assert offered["parameters"]["properties"]["city"] == {"description": "The city", "type": "string"}
    call, _, agent = await called(from_langchain(forecast), days="many")
    assert "city: required field is missing" in call["result"]
    assert list(agent.trace.tool_calls["args_valid"]) == [False]


async def test_an_async_one_runs_on_the_loop_and_the_model_does_not_see_what_is_injected():
    call, offered, _ = await called(from_langchain(aforecast), city="Rome")
    assert call["result"] == "Rome s True"
    assert list(offered["parameters"]["properties"]) == ["city"]


async def test_a_subclass_and_what_it_raises():
    call, _, _ = await called(Reversed(), text="abc")
    assert call["result"] == "cba"
    call, _, _ = await called(Reversed(), text="")
    assert call["is_error"]
    assert "nothing to reverse" in call["result"]
    call, _, _ = await called(Reversed(handle_tool_error=True), text="")
    assert call["result"] == "nothing to reverse"


async def test_options_are_those_of_tool():
    asked = []
    agent = Agent(
        ScriptedProvider([FunctionCall("forecast", {"city": "Rome"}), "done"]),
        tools=[from_langchain(forecast, approve=True, timeout=3)],
        approve=lambda call, definition: asked.append((call.name, definition.timeout)),
    )
    result = await agent.chat("Go")
    assert asked == [("forecast", 3)]
    assert "not approved" in result.function_calls[0]["result"]
    with pytest.raises(ConfigurationError, match="option"):
        from_langchain(forecast, aprove=True)


# -- the OpenAI Agents SDK --------------------------------------------------------------------------------------------


@agents.function_tool(needs_approval=True, timeout=5)
async def book(wrapper: agents.RunContextWrapper[dict], city: str, nights: int = 2) -> str:
    """Book a room.

    Args:
        city: Where.
    """
    return f"{city} {nights} {(wrapper.context or {}).get('user')} {wrapper.tool_call_id != ''}"


@agents.function_tool(failure_error_function=None)
def fail(x: int) -> str:
    """Fail."""
    raise LookupError(f"no {x}")


async def test_a_function_tool_is_a_tool():
    call, offered, agent = await called(from_openai_agents(book, context={"user": "ada"}), city="Rome", nights=1)
    assert call["result"] == "Rome 1 ada True"
    assert offered["description"] == "Book a room."
    assert offered["parameters"]["properties"]["city"] == {"description": "Where.", "type": "string"}
    assert list(agent.trace.tool_calls["approval"]) == ["approved"]
    definition = agent.function_registry.get_function("book")
    assert (definition.approve, definition.timeout) == (True, 5)
    assert from_openai_agents(book, approve=False).approve is False


async def test_what_a_function_tool_raises_is_an_error():
    call, _, _ = await called(fail, x=3)
    assert call["is_error"]
    assert "LookupError: no 3" in call["result"]


# -- Pydantic AI ------------------------------------------------------------------------------------------------------


def roll(ctx: RunContext[dict], sides: int) -> str:
    """Roll a die.

    Args:
        ctx: What is known.
        sides: How many sides.
    """
    if sides < 2:
        raise ModelRetry("a die has two sides at least")
    return f"{ctx.deps['name']} {sides} {ctx.tool_name}"


async def test_a_pydantic_ai_tool_is_a_tool():
    made = from_pydantic_ai(
        PydanticTool(roll, requires_approval=True, timeout=4, sequential=True), deps={"name": "ada"}
    )
    assert (made.approve, made.timeout, made.parallel) == (True, 4, False)
    call, offered, _ = await called(made, sides=6)
    assert call["result"] == "ada 6 roll"
    assert offered["parameters"]["properties"] == {"sides": {"description": "How many sides.", "type": "integer"}}
    call, _, _ = await called(made, sides=1)
    assert "a die has two sides at least" in call["result"]


# -- all --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("convert", [from_langchain, from_openai_agents, from_pydantic_ai])
def test_anything_else_is_refused(convert):
    for other in (print, "forecast", Reversed):
        with pytest.raises(ConfigurationError, match=rf"{convert.__name__}: expected"):
            convert(other)
