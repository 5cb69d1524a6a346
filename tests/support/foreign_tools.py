"""Tools written for LangChain, the OpenAI Agents SDK and Pydantic AI: to import all three takes seconds."""

import asyncio
import threading
from typing import Annotated

import agents
from langchain_core.tools import BaseTool, InjectedToolArg, ToolException
from langchain_core.tools import tool as langchain_tool
from pydantic import BaseModel, Field
from pydantic_ai import ModelRetry, RunContext
from pydantic_ai import Tool as PydanticTool


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


def roll(ctx: RunContext[dict], sides: int) -> str:
    """Roll a die.

    Args:
        ctx: What is known.
        sides: How many sides.
    """
    if sides < 2:
        raise ModelRetry("a die has two sides at least")
    return f"{ctx.deps['name']} {sides} {ctx.tool_name}"


pydantic_roll = PydanticTool(roll, requires_approval=True, timeout=4, sequential=True)
