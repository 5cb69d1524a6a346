"""A map's cost is estimated before it starts. It asks or refuses, stops within one wave, and continues with more."""

import asyncio

import pandas as pd
import pytest

from nbagent import Agent, Budget, Limits, LLMResponse, ScriptedProvider, Usage
from nbagent.errors import ConfigurationError

ROWS = 400
CONCURRENCY = 8
#: Dollars a million tokens: an answer of 100 tokens costs a cent.
PRICE = {"input": 0.0, "output": 100.0}


def agent_with(**options):
    async def answer(messages, _):
        await asyncio.sleep(0)
        return LLMResponse("fine", None, "stop", {"usage": Usage(10, 100)})

    return Agent(ScriptedProvider(answer, price=PRICE), **options)


def questions(count=ROWS):
    return pd.Series([f"row {number}" for number in range(count)])


@pytest.mark.parametrize(
    ("made", "options", "cap"),
    [
        ({}, {"budget": 0.5}, r"\$0.50 of the budget is left"),
        ({}, {"budget": Budget(max_cost=0.5)}, r"\$0.50 of the budget is left"),
        ({}, {"limits": Limits(max_cost=0.001)}, r"limits.max_cost is \$0.001 a row"),
        ({"budget": Budget(max_cost=0.25)}, {"budget": 100.0}, r"\$0.25 of the budget is left"),
    ],
)
async def test_a_map_over_its_cap_is_refused_if_nobody_can_approve(made, options, cap):
    agent = agent_with(**made)
    problem = rf"400 rows may cost about \$8.00 \(if .* 200 tokens\), and {cap}.*partial=T"
    with pytest.raises(ConfigurationError, match=problem):
        await agent.map(questions(), **options)
    assert agent.provider.requests == []
    assert set(agent.last_map["status"]) == {"left"}


async def test_a_spent_budget_stops_the_map_within_one_wave_and_a_larger_one_continues_it():
    agent, budget = agent_with(), Budget(max_cost=0.50)
    with pytest.warns(UserWarning, match="the budget is spent") as warned:
        first = await agent.map(questions(), budget=budget, concurrency=CONCURRENCY, allow_partial=True)
    done = int((first["status"] == "ok").sum())
    assert 50 <= done < 50 + CONCURRENCY
    assert f"{done} of 400 rows are done, {ROWS - done} are left" in str(warned[0].message)
    assert budget.spent == pytest.approx(done / 100)
    budget.max_cost = 100.0
    second = await agent.map(questions(), budget=budget, concurrency=CONCURRENCY)
    assert set(second["status"]) == {"ok"}
    assert len(agent.provider.requests) == ROWS, "each row was sent once"
