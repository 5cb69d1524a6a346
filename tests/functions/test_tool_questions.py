"""A running tool asks the user."""

import asyncio

from support.tool_runs import run

from nbagent import FunctionRegistry, ToolExecutor
from nbagent.core.current import current
from nbagent.functions.elicitation import Question, ask_person


async def order():
    """Asks for a size."""
    answers = await ask_person(
        Question("shop", {"size": "M"}, text="Which size?", problem=lambda given: "" if "size" in given else "no size"),
        current.get().call_in_progress,
    )
    return f"{answers}"


def executor(approver, timeout=15.0):
    registry = FunctionRegistry()
    registry.register("order", "", order)
    return ToolExecutor(registry, approver=approver, timeout=timeout)


async def test_without_anybody_to_ask_there_are_no_answers():
    assert (await run(executor(None), "order")).content == "None"
    assert await ask_person(Question("shop"), None) is None


async def test_the_users_time_does_not_count():
    async def slow(question, definition):
        await asyncio.sleep(0.3)
        return True

    outcome = await run(executor(slow, timeout=0.2), "order")
    assert outcome.content == "{'size': 'M'}"
