"""Everything that shares a `Budget` spends it once."""

import copy
import pickle

import pytest
from pydantic import BaseModel

from nbagent import Agent, Budget, FunctionCall, ScriptedProvider, compare_sync
from nbagent.errors import ConfigurationError

#: One dollar for each word of an answer.
PRICE = {"input": 0.0, "output": 1e6}


def agent_with(budget, answer="Yes.", **options):
    return Agent(ScriptedProvider(lambda messages, functions: answer, price=PRICE), budget=budget, **options)


def test_agents_and_forks_spend_one_budget():
    budget = Budget(max_cost=3.0)
    one, other = agent_with(budget), agent_with(budget)
    cost = one.chat_sync("a").cost
    assert cost > 0
    one.fork().chat_sync("b")
    other.chat_sync("c")
    assert budget.spent == pytest.approx(3 * cost)
    assert budget.left == max(0.0, 3.0 - 3 * cost)


def test_a_spent_budget_ends_runs_until_there_is_more():
    budget = Budget(max_cost=0.5)
    agent = agent_with(budget)
    assert agent.chat_sync("a").status == "ok"
    assert budget.is_spent
    ended = agent.chat_sync("b")
    assert (ended.status, ended.limit_reason, ended.content) == ("limit", "cost", "")
    budget.max_cost = 100.0
    assert agent.chat_sync("c").content == "Yes."


def test_an_answer_of_an_agent_that_a_tool_calls_counts_once():
    budget = Budget()
    inner = agent_with(budget)
    turns = [FunctionCall("ask", {"question": "?"}), "Done."]
    outer = Agent(ScriptedProvider(turns, price=PRICE), tools=[inner.as_tool("ask", "Asks.")], budget=budget)
    outer.chat_sync("go")
    paid = [*outer.trace.rows("calls"), *inner.trace.rows("calls")]
    assert len(paid) == 3
    assert budget.spent == pytest.approx(sum(row["cost_usd"] for row in paid))


class Word(BaseModel):
    word: str


async def test_extract_and_compare_also_spend_it():
    budget = Budget(max_total_tokens=10_000)
    agent = agent_with(budget, '{"word": "yes"}')
    assert (await agent.extract("yes", Word)).word == "yes"
    after_one = budget.spent
    assert after_one > 0
    result = compare_sync({"a": agent, "b": agent}, ["x", "y"], progress=False)
    assert budget.spent == pytest.approx(after_one + result.frame["cost"].sum())
    assert "of 10,000 tokens" in repr(budget)


def test_budgets_and_agents_cannot_be_copied():
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(ConfigurationError, match="Budget"):
            copied(Budget(max_cost=1.0))
        with pytest.raises(ConfigurationError, match=r"agent\.fork"):
            copied(Agent("scripted"))
    with pytest.raises(ConfigurationError, match="-1"):
        Budget(max_cost=-1)
