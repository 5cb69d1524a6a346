"""`Trace.summary`: calls, tokens, cost and times by model, day, tag and tool."""

import pandas as pd
import pytest
from support.small_agent import add, call

from nbagent import Agent, LLMResponse, ScriptedProvider, Trace, Usage
from nbagent.errors import ConfigurationError
from nbagent.trace.views.summary_by import summary_by


def trace_of_two():
    trace = Trace()
    counted = {"usage": Usage(100, 10)}
    turns = [LLMResponse("", [call("add", a=1, b=2), call("add", "c2", a="x")], "tool_calls", counted)]
    turns += [LLMResponse("3", None, "stop", counted)]
    Agent(ScriptedProvider(turns, model="m1"), tools=[add], trace=trace).chat_sync("?", tags=["exam", "sum"])
    Agent(ScriptedProvider([LLMResponse("a", None, "stop", counted)], model="m2"), trace=trace).chat_sync(
        "?", tags=["exam"]
    )
    return trace


def test_models_have_sums_percentiles_and_speed():
    trace = trace_of_two()
    table = trace.summary("model")
    assert table.index.tolist() == ["m1", "m2"]
    assert table["calls"].tolist() == [2, 1]
    assert table["input_tokens"].tolist() == [200, 100]
    seconds = trace.calls.loc[trace.calls["model"] == "m1", "duration_s"].astype(float)
    assert table["duration_p50_s"]["m1"] == pytest.approx(seconds.median())
    assert table["duration_p95_s"]["m1"] == pytest.approx(seconds.quantile(0.95))
    assert table["tokens_per_s"]["m1"] == pytest.approx(20 / seconds.sum())


def test_tags_tools_and_days():
    trace = trace_of_two()
    assert trace.summary("tag")["calls"].to_dict() == {"exam": 3, "sum": 2}
    tools = trace.summary("tool")
    assert (tools["calls"]["add"], tools["succeeded"]["add"], tools["invalid"]["add"]) == (2, 1, 1)
    assert tools["duration_p95_s"]["add"] >= tools["duration_p50_s"]["add"] > 0
    assert trace.summary("day")["calls"].sum() == 3


def test_replayed_calls_cost_no_money_and_no_time():
    calls = trace_of_two().calls
    calls["replayed"] = [True, False, True]
    calls["cost_usd"] = [5.0, 2.0, 5.0]
    table = summary_by("model", {"calls": calls})
    assert table["calls"].tolist() == [2, 1]
    assert table["replayed"].tolist() == [1, 1]
    assert table["cost_usd"]["m1"] == 2.0
    assert pd.isna(table["cost_usd"]["m2"])


def test_an_empty_trace_has_an_empty_summary_and_other_groups_are_errors():
    assert all(Trace().summary(by).empty for by in ("model", "day", "tag", "tool"))
    with pytest.raises(ConfigurationError, match="'run'"):
        Trace().summary("run")
