"""Where limits come from, and how often each tool was called."""

import math
from dataclasses import fields

import pytest

from nbagent import Agent, AgentConfig, FunctionCall, Limits, ScriptedProvider
from nbagent.errors import ConfigurationError


def test_arguments_override_the_environment_which_overrides_the_configuration(monkeypatch):
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
def test_an_invalid_variable_is_named(name, text, monkeypatch):
    monkeypatch.setenv(f"NBAGENT_{name}", text)
    with pytest.raises(ConfigurationError, match=f"NBAGENT_{name}: expected .*{text}.* environment"):
        Agent("scripted")


def test_an_invalid_argument_is_named():
    for value in (-1, "5", True, float("nan")):
        with pytest.raises(ConfigurationError, match="max_cost: expected a number"):
            Limits(max_cost=value)


def f() -> str:
    """Do something."""
    return "done"


async def test_tool_statistics_include_uncalled_tools_and_unknown_calls():
    agent = Agent(ScriptedProvider([FunctionCall("nothing", {}), "done"]), tools=[f])
    assert agent.tool_stats()["calls"].to_dict() == {"f": 0}
    await agent.chat("go")
    assert agent.tool_stats()[["calls", "succeeded", "invalid"]].to_numpy().tolist() == [[0, 0, 0], [1, 0, 1]]
