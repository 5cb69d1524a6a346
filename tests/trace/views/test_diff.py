"""The differences between two runs, value by value, without ids and times."""

import pandas as pd
import pytest

from nbagent import Agent, FunctionCall, LLMResponse, ScriptedProvider, Trace, Usage
from nbagent.errors import ConfigurationError


def mean(column: str) -> float:
    """A mean."""
    return {"mass": 4.2, "bill": 39.0}[column]


def count(group: str) -> int:
    """A count."""
    return 3


def call(name, **arguments):
    return FunctionCall(name, arguments, f"{name}{sorted(arguments.items())}")


async def trace_of(*scripts, model="claude-sonnet-5", provider_name="claude"):
    trace = Trace()
    for turns in scripts:
        provider = ScriptedProvider(turns, model=model)
        provider.provider_name = provider_name
        await Agent(provider, tools=[mean, count], trace=trace).chat("How heavy?")
    return trace


def told(difference: pd.DataFrame) -> dict:
    """`(table, place, name, column)` -> `(a, b)`, without the durations."""
    kept = difference[difference["column"] != "duration_s"]
    keys = zip(kept["table"], kept["place"], kept["name"].fillna("-"), kept["column"], strict=True)
    return dict(zip(keys, zip(kept["a"], kept["b"], strict=True), strict=True))


async def test_equal_runs_differ_only_in_time():
    turns = [[call("mean", column="mass")], "4.2 kg"]
    trace = await trace_of(turns, turns)
    one, other = trace.runs["run_id"]
    difference = trace.diff(one, other)
    assert difference["column"].tolist() == ["duration_s"]
    seconds = trace.runs["duration_s"]
    assert difference["change"].iloc[0] == pytest.approx(seconds[1] - seconds[0])
    assert trace.diff(one, one).empty


async def test_tokens_cost_answers_and_results():
    facts = {"usage": Usage(100, 20, 40, 0, 5)}
    more = {"usage": Usage(150, 20, 40, 0, 5)}
    first = [LLMResponse("", [call("mean", column="mass")], None, facts), LLMResponse("4.2 kg", None, "stop", facts)]
    second = [LLMResponse("", [call("mean", column="bill")], None, facts), LLMResponse("39 mm", None, "stop", more)]
    trace = await trace_of(first, second)
    difference = trace.diff(*trace.runs["run_id"])
    found = told(difference)
    assert found[("runs", 0, "-", "output")] == ("4.2 kg", "39 mm")
    assert found[("runs", 0, "-", "input_tokens")] == (200, 250)
    assert found[("tool_calls", 0, "mean", "args")] == ('{"column":"mass"}', '{"column":"bill"}')
    assert found[("tool_calls", 0, "mean", "result_text")] == ("4.2", "39.0")
    assert found[("messages", 3, "assistant", "text")] == ("4.2 kg", "39 mm")
    costs = trace.runs["cost_usd"]
    change = difference.set_index("column")["change"]
    assert change["cost_usd"] == pytest.approx(costs[1] - costs[0])
    assert change["input_tokens"] == 50
    assert len(found) == 8  # these, the cost, and the tool's text


async def test_a_call_that_only_one_run_has_does_not_shift_others():
    masses, bills, counts = call("mean", column="mass"), call("mean", column="bill"), call("count", group="sex")
    trace = await trace_of([[masses, bills], "ok"], [[counts, masses, bills], "ok"])
    found = told(trace.diff(*trace.runs["run_id"]))
    calls = {key: values for key, values in found.items() if key[0] == "tool_calls"}
    assert {key[:3] for key in calls} == {("tool_calls", 0, "count")}
    assert calls[("tool_calls", 0, "count", "result_text")] == (None, "3")
    assert found[("runs", 0, "-", "n_tool_calls")] == (2, 3)


async def test_status_errors_and_model_and_an_unknown_run():
    good = await trace_of([[call("mean", column="mass")], "ok"])
    bad = Trace()
    agent = Agent(ScriptedProvider([[call("mean", column="x")], ValueError("no")], model="m"), tools=[mean], trace=bad)
    with pytest.raises(ValueError, match="no"):
        await agent.chat("How heavy?")
    both = Trace.concat([good, bad])
    found = told(both.diff(*both.runs["run_id"]))
    assert found[("runs", 0, "-", "status")] == ("ok", "error")
    assert found[("runs", 0, "-", "error_message")] == (None, "no")
    assert found[("calls", 0, "-", "model")] == ("claude-sonnet-5", "m")
    assert found[("tool_calls", 0, "mean", "error_type")] == (None, "KeyError")
    with pytest.raises(ConfigurationError, match="'run_x'"):
        both.diff(both.runs["run_id"][0], "run_x")


async def test_an_unchanged_system_message_is_not_a_difference():
    trace = Trace()
    agent = Agent(ScriptedProvider(["Hi."] * 4), system_prompt="Be brief.", trace=trace)
    await agent.chat("Hello")
    await agent.chat("Hello")
    agent.system_prompt = "Be long."
    await agent.chat("Hello")
    one, two, three = trace.runs["run_id"]
    assert "messages" not in trace.diff(one, two)["table"].tolist()
    for before in (one, two):
        difference = trace.diff(before, three).query("table == 'messages'")
        assert told(difference) == {("messages", 0, "system", "text"): ("Be brief.", "Be long.")}
