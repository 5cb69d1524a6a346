"""Limits: where they come from, what they count, and that agents inside tools share the budget."""

import asyncio
import json
import math
from dataclasses import fields
from pathlib import Path

import pytest

from nbagent import Agent, AgentConfig, FunctionCall, Limits, LLMResponse, ScriptedProvider, Usage
from nbagent.errors import ConfigurationError


def costly(text="", tokens=100, calls=None):
    return LLMResponse(text, calls, metadata={"usage": Usage(tokens - 1, 1)})


def test_an_argument_beats_the_environment_and_that_the_configuration(monkeypatch):
    config = AgentConfig(model="m", base_url="http://127.0.0.1:9", max_tool_iterations=3, max_cost=0.3, max_seconds=3)
    assert Agent(config).limits == Limits(max_iterations=3, max_cost=0.3, max_seconds=3)
    monkeypatch.setenv("NBAGENT_MAX_ITERATIONS", "2")
    monkeypatch.setenv("NBAGENT_MAX_COST", "0.2")
    assert Agent(config).limits == Limits(max_iterations=2, max_cost=0.2, max_seconds=3)
    given = Limits(max_iterations=1, tool_seconds=1)
    assert Agent(config, limits=given).limits == Limits(1, max_cost=0.2, max_seconds=3, tool_seconds=1)
    lifted = Agent(config, limits=Limits(max_cost=math.inf)).limits
    assert lifted.max_cost == math.inf


def test_every_limit_can_be_configured():
    values = {each.name: number for number, each in enumerate(fields(Limits), 1)}
    configured = {**values, "max_tool_iterations": values["max_iterations"]}
    del configured["max_iterations"]
    assert Agent(AgentConfig(model="m", **configured)).limits == Limits(**values)


@pytest.mark.parametrize(("name", "text"), [("MAX_ITERATIONS", "many"), ("MAX_COST", "-1"), ("TOOL_SECONDS", "nan")])
def test_a_variable_that_is_no_limit_is_named(name, text, monkeypatch):
    monkeypatch.setenv(f"NBAGENT_{name}", text)
    with pytest.raises(ConfigurationError, match=f"NBAGENT_{name}: expected .*{text}.* environment"):
        Agent("scripted")


@pytest.mark.parametrize("value", [-1, "5", True, float("nan")])
def test_an_argument_that_is_no_limit_is_named(value):
    with pytest.raises(ConfigurationError, match="max_cost: expected a number"):
        Limits(max_cost=value)


def f() -> str:
    """Do something."""
    return "done"


async def test_seconds_for_tools_that_name_none():
    async def slow() -> str:
        await asyncio.sleep(60)
        return "never"

    agent = Agent(ScriptedProvider([FunctionCall("slow", {}), "ok"]), tools=[slow], limits=Limits(tool_seconds=0.01))
    result = await agent.chat("go")
    assert "did not return within 0.01 s. @tool(timeout=60) or Limits" in result.function_calls[0]["result"]


def test_the_time_that_a_tool_has_is_the_documented_one():
    seconds = Agent(ScriptedProvider([])).tool_executor.timeout
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "tools.md").read_text("utf-8")
    assert f"may take {seconds:g} seconds" in page
    assert f"{seconds:g} by default" in Limits.__doc__


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


async def test_the_model_reads_a_short_traceback_and_the_trace_keeps_the_whole():
    def broken() -> str:
        """Read it."""
        return json.loads("{")

    agent = Agent(ScriptedProvider([FunctionCall("broken", {}), "sorry"]), tools=[broken], tool_tracebacks=True)
    read = (await agent.chat("go")).function_calls[0]["result"]
    kept = agent.trace.tool_calls["traceback"][0]
    assert "JSONDecodeError" in read
    assert "raw_decode" not in read
    assert "raw_decode" in kept
