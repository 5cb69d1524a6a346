"""A run shares one budget with all runs that its tools start, wherever and whenever they run."""

import asyncio
import threading
from time import monotonic

import pytest

from nbagent import Agent, FunctionCall, Limits, LLMResponse, ScriptedProvider, Usage
from nbagent.core.limits import Account
from nbagent.errors import AgentDepthError


def answer(text="", tokens=100, calls=None):
    return LLMResponse(text, calls, metadata={"usage": Usage(tokens - 1, 1)})


class Selfish:
    """An agent whose model calls a tool `calls` times in each turn. The tool calls a fork of the agent."""

    def __init__(self, calls=1, **limits):
        self.requests, self.calls, self.refused = 0, calls, []
        self.agent = Agent(ScriptedProvider(self.turn), tools=[self.ask], limits=Limits(**limits))

    def turn(self, messages, functions):
        self.requests += 1
        return [FunctionCall("ask", {}, f"c{n}") for n in range(self.calls)]

    async def ask(self) -> str:
        """Call a fork."""
        try:
            return (await self.agent.fork().chat("go")).content
        except AgentDepthError as error:
            self.refused.append(str(error))
            raise


@pytest.mark.parametrize(
    ("calls", "limits", "reason", "most"),
    [
        (2, {"max_requests": 200}, "requests", 200 + 2**6),
        (1, {"max_tool_calls": 5}, "tool_calls", 11),
        (1, {"max_depth": 1, "max_iterations": 1}, "iterations", 2),
    ],
)
async def test_an_agent_that_calls_its_own_fork_ends(calls, limits, reason, most):
    selfish = Selfish(calls, **limits)
    result = await selfish.agent.chat("go")
    assert (result.status, result.limit_reason) == ("limit", reason)
    assert selfish.requests <= most
    assert bool(selfish.refused) == (reason != "tool_calls")
    assert all("max_depth" in each for each in selfish.refused)


def test_all_requests_of_a_tree_have_a_default_limit():
    spent = Account(depth=0)
    for _ in range(999):
        Account(parent=spent).add_request()
    assert spent.reached_limit() is None
    Account(parent=spent).add_request()
    assert spent.reached_limit().reason == "requests"


async def test_known_costs_count_even_if_others_are_unknown():
    unpriced = ScriptedProvider(["ok"] * 2)
    unpriced.provider_name = "nobody"

    async def ask() -> str:
        """Call an agent without a price."""
        return (await Agent(unpriced).chat("go")).content

    turn = answer(calls=[FunctionCall("ask", {}, "c1")], tokens=1_000_000)
    model = ScriptedProvider(lambda *_: turn, price={"input": 0.006, "output": 0})
    result = await Agent(model, tools=[ask], limits=Limits(max_cost=0.01)).chat("go")
    assert (result.status, result.limit_reason, result.iterations) == ("limit", "cost", 2)
    assert result.cost is None  # the sum is unknown


async def test_a_background_task_of_a_tool_spends_the_runs_budget(monkeypatch):
    inner, left, done = Agent(ScriptedProvider([answer("late", 500)] * 3)), [], asyncio.Event()

    async def start() -> str:
        """Start something and return."""
        left.append(asyncio.create_task(later()))
        return "started"

    async def later():
        await done.wait()
        return [(await inner.chat("now")).status for _ in range(3)]

    limits = Limits(max_seconds=600, max_total_tokens=1_000)
    outer = Agent(ScriptedProvider([FunctionCall("start", {}), "end"]), tools=[start], limits=limits)
    result = await outer.chat("go")
    monkeypatch.setattr("nbagent.core.limits.monotonic", lambda: monotonic() + 600)  # its time no longer counts
    done.set()
    assert await left[0] == ["ok", "ok", "limit"]
    assert set(inner.trace.runs["parent_run_id"]) == {result.run_id}


def test_threads_can_spend_concurrently():
    spent = Account(Limits(max_tool_calls=1_500))
    granted = []

    def spend():
        mine = Account(parent=spent)
        for _ in range(500):
            mine.add(Usage(1, 1), 0.25)
            mine.add_request()
            granted.append(mine.take_tool_calls(1))

    threads = [threading.Thread(target=spend) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (spent.usage, spent.cost, spent.requests) == (Usage(4_000, 4_000), 1_000, 4_000)
    assert sum(granted) == spent.tool_calls == 1_500
