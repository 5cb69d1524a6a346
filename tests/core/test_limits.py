"""Limits: where they come from, what they count, and that agents inside tools share the budget."""

import math
from dataclasses import fields

import pytest

from nbagent import Agent, AgentConfig, FunctionCall, Limits, LLMResponse, ScriptedProvider, Usage
from nbagent.errors import ConfigurationError


def costly(text="", tokens=100, calls=None):
    return LLMResponse(text, calls, metadata={"usage": Usage(tokens - 1, 1)})


def test_an_argument_beats_the_environment_and_that_the_configuration(monkeypatch):
    values = {each.name: number for number, each in enumerate(fields(Limits), 1)}
    configured = {**values, "max_tool_iterations": values["max_iterations"]}
    del configured["max_iterations"]
    config = AgentConfig(model="m", **configured)
    assert Agent(config).limits == Limits(**values)
    monkeypatch.setenv("NBAGENT_MAX_ITERATIONS", "20")
    monkeypatch.setenv("NBAGENT_MAX_COST", "0.2")
    assert Agent(config).limits == Limits(**values | {"max_iterations": 20, "max_cost": 0.2})
    given = Limits(max_iterations=1, max_cost=math.inf)
    assert Agent(config, limits=given).limits == Limits(**values | {"max_iterations": 1, "max_cost": math.inf})


@pytest.mark.parametrize(("name", "text"), [("MAX_ITERATIONS", "many"), ("MAX_COST", "-1"), ("TOOL_SECONDS", "nan")])
def test_a_variable_that_is_no_limit_is_named(name, text, monkeypatch):
    monkeypatch.setenv(f"NBAGENT_{name}", text)
    with pytest.raises(ConfigurationError, match=f"NBAGENT_{name}: expected .*{text}.* environment"):
        Agent("scripted")


def test_an_argument_that_is_no_limit_is_named():
    for value in (-1, "5", True, float("nan")):
        with pytest.raises(ConfigurationError, match="max_cost: expected a number"):
            Limits(max_cost=value)


def f() -> str:
    """Do something."""
    return "done"


class Delegating:
    """An agent whose tool asks another agent."""

    def __init__(self, *inner_turns, **limits):
        self.inner, self.outcomes = Agent(ScriptedProvider(inner_turns), tools=[f]), []
        turns = [*(costly(calls=[FunctionCall("ask", {}, each)]) for each in ("c1", "c2")), costly("end")]
        self.outer = Agent(ScriptedProvider(turns), tools=[self.ask], limits=Limits(**limits))

    async def ask(self) -> str:
        """Ask the other agent."""
        self.outcomes.append(await self.inner.chat("do it"))
        return self.outcomes[-1].content


async def test_what_a_tool_asks_other_agents_is_spent_here():
    team = Delegating(costly("one", 500), costly("two", 500), max_total_tokens=2_000)
    result = await team.outer.chat("go")
    assert result.usage.total_tokens == 1_300
    assert team.outer.trace.usage["total_tokens"].sum() == 300  # each trace counts its own requests
    assert team.outcomes[0].usage.total_tokens == 500
    assert team.inner.trace.runs["parent_run_id"].tolist() == [result.run_id] * 2
    assert team.outer.trace.runs["parent_run_id"].isna().all()


async def test_the_budget_of_the_outer_run_ends_the_inner_one_and_then_itself():
    turns = [costly(calls=[FunctionCall("f", {}, f"c{n}")], tokens=500) for n in range(9)]
    team = Delegating(*turns, max_total_tokens=1_000)
    result = await team.outer.chat("go")
    assert (team.outcomes[0].status, team.outcomes[0].limit_reason) == ("limit", "tokens")
    assert team.outcomes[0].iterations == 2
    assert (result.status, result.limit_reason, result.iterations) == ("limit", "tokens", 1)


async def test_tool_statistics():
    def double(n: int) -> int:
        """Double it."""
        if n > 9:
            raise ValueError(n)
        return 2 * n

    calls = [FunctionCall("double", {"n": n}) for n in (1, 2, 10, "x")]
    agent = Agent(ScriptedProvider([calls, FunctionCall("nothing", {}), "done"]), tools=[double, f])
    assert agent.tool_stats()["calls"].to_dict() == {"double": 0, "f": 0}
    await agent.chat("go")
    stats = agent.tool_stats()
    assert stats.index.tolist() == ["double", "f", "nothing"]
    assert stats.loc["double", ["calls", "succeeded", "failed", "invalid", "denied"]].tolist() == [4, 2, 1, 1, 0]
    assert stats.loc["f", ["calls", "total_s"]].tolist() == [0, 0]
    assert stats.loc["nothing", "invalid"] == 1
    assert 0 < stats.loc["double", "mean_s"] <= stats.loc["double", "longest_s"] <= stats.loc["double", "total_s"]
