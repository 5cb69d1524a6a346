"""The queue of an agent's runs."""

import asyncio

import pytest

from nbagent import Agent, FunctionCall, ScriptedProvider
from nbagent.core.queue import QueueEntry, RunQueue


async def test_a_cancelled_waiter_does_not_block_the_queue():
    queue = RunQueue()
    first, last = QueueEntry(queue), QueueEntry(queue)
    await first.enter()
    waiting = asyncio.create_task(QueueEntry(queue).enter())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    first.leave()
    await asyncio.wait_for(last.enter(), 60)
    assert queue.entries == [last]


class Asking:
    """Two agents, each with a tool that asks the other one, and whose models call it at the same time."""

    def __init__(self):
        self.begun = [asyncio.Event(), asyncio.Event()]
        self.agents = [Agent(ScriptedProvider(self.turn), tools=[self.tool(n)]) for n in range(2)]

    def turn(self, messages, functions):
        first = messages[-1].role == "user" and messages[-1].text == "first"
        return FunctionCall("ask", {}, "c1") if first else messages[-1].text or "done"

    def tool(self, number):
        async def ask() -> str:
            """Ask the other agent."""
            self.begun[number].set()
            for event in self.begun:
                await event.wait()
            return (await self.agents[1 - number].chat("second")).content

        return ask


async def test_agents_that_wait_for_each_other_find_out_at_once():
    async with asyncio.timeout(14):  # less than a tool may take
        results = await asyncio.gather(*(agent.chat("first") for agent in Asking().agents))
    said = [result.function_calls[0]["result"] for result in results]
    (busy,) = (each for each in said if "AgentBusyError" in each)
    assert "fork()" in busy
    assert "second" in said
