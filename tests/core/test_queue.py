"""The queue of an agent's runs."""

import asyncio

import pytest

from nbagent import Agent, FunctionCall, ScriptedProvider
from nbagent.core.queue import QueueEntry, RunQueue


async def test_the_queue_is_first_in_first_out():
    queue, order = RunQueue(), []

    async def run(number):
        entry = QueueEntry(queue)
        await entry.enter()
        order.append(number)
        await asyncio.sleep(0)
        entry.leave()

    await asyncio.gather(*(run(number) for number in range(5)))
    assert order == list(range(5))


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
    """Agents, each with a tool that asks the next one, and whose models call it at the same time."""

    def __init__(self, count):
        self.begun = [asyncio.Event() for _ in range(count)]
        self.agents = [Agent(ScriptedProvider(self.turn), tools=[self.tool(n)]) for n in range(count)]

    def turn(self, messages, functions):
        first = messages[-1].role == "user" and messages[-1].text == "first"
        return FunctionCall("ask", {}, "c1") if first else messages[-1].text or "done"

    def tool(self, number):
        async def ask() -> str:
            """Ask the next agent."""
            self.begun[number].set()
            for event in self.begun:
                await event.wait()
            return (await self.agents[(number + 1) % len(self.agents)].chat("second")).content

        return ask


@pytest.mark.parametrize("count", [2, 3])
async def test_agents_that_wait_for_each_other_find_out_at_once(count):
    asking = Asking(count)
    async with asyncio.timeout(14):  # less than a tool may take
        results = await asyncio.gather(*(agent.chat("first") for agent in asking.agents))
    said = [result.function_calls[0]["result"] for result in results]
    assert sum("AgentBusyError" in each and "fork()" in each for each in said) == 1
    assert sum(each == "second" for each in said) == count - 1


async def test_agents_that_ask_a_third_one_wait_for_it():
    third = Agent(ScriptedProvider(["one", "two"]))

    async def ask() -> str:
        """Ask the third agent."""
        return (await third.chat("go")).content

    agents = [Agent(ScriptedProvider([FunctionCall("ask", {}, "c1"), "done"]), tools=[ask]) for _ in range(2)]
    results = await asyncio.gather(*(agent.chat("go") for agent in agents))
    assert sorted(result.function_calls[0]["result"] for result in results) == ["one", "two"]
