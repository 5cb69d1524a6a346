"""Searching the tables of a trace."""

import pytest

from nbagent import Agent, FunctionCall, LLMResponse, ScriptedProvider, Trace
from nbagent.trace.views.search import TABLES, Search


def mean(column: str) -> float:
    """A mean."""
    return {"mass": 4.2, "bill": 39.0}[column]


def count(group: str) -> int:
    """A count."""
    return 3


@pytest.fixture(scope="module")
def tables():
    trace = Trace()
    calls = [FunctionCall("mean", {"column": "mass"}, "1"), FunctionCall("mean", {"column": "x"}, "2")]
    first = LLMResponse("", calls, None, {"thinking": "Weigh them (all)."})
    agent = Agent(ScriptedProvider([first, "It is 4.2 kg."], model="m"), tools=[mean, count], trace=trace)
    agent.chat_sync("How heavy?")
    agent = Agent(
        ScriptedProvider([FunctionCall("count", {"group": "sex"}, "3"), "Three."]), tools=[count], trace=trace
    )
    agent.chat_sync("How many?")
    with pytest.raises(ValueError, match="broken"):
        Agent(ScriptedProvider([ValueError("broken")]), trace=trace).chat_sync("And now?")
    return {name: getattr(trace, name) for name in TABLES}


def found(tables, name, column, **wanted):
    return Search(**wanted).rows(tables, name)[column].tolist()


def test_nothing_given_finds_everything(tables):
    for name in TABLES:
        assert len(Search().rows(tables, name)) == len(tables[name])
        assert list(Search().rows(tables, name).columns) == list(tables[name].columns)


def test_by_run(tables):
    second = tables["runs"]["run_id"][1]
    assert found(tables, "tool_calls", "name", run_id=second) == ["count"]
    assert found(tables, "messages", "text", run_id=second)[0] == "How many?"


def test_by_tool(tables):
    assert found(tables, "runs", "prompt", tool="count") == ["How many?"]
    assert found(tables, "calls", "model", tool="mean") == ["m"]
    assert found(tables, "tool_calls", "args", tool="mean") == [{"column": "mass"}, {"column": "x"}]
    assert found(tables, "blocks", "type", tool="count") == ["tool_call", "tool_result"]
    assert found(tables, "runs", "prompt", tool="unheard of") == []


def test_by_kind(tables):
    assert found(tables, "runs", "prompt", kind="thinking") == ["How heavy?"]
    assert found(tables, "blocks", "text", kind="thinking") == ["Weigh them (all)."]
    assert found(tables, "messages", "role", kind="tool_result") == ["tool"] * 3


def test_by_failure(tables):
    assert found(tables, "runs", "prompt", errors=True) == ["And now?"]
    assert found(tables, "calls", "error_type", errors=True) == ["ValueError"]
    assert found(tables, "tool_calls", "args", errors=True) == [{"column": "x"}]
    assert found(tables, "blocks", "type", errors=True) == ["tool_call", "tool_result"]
    assert found(tables, "messages", "role", errors=True) == ["assistant", "tool"]


def test_by_text_without_patterns(tables):
    assert found(tables, "runs", "prompt", text="THEM (all") == ["How heavy?"]  # no pattern; in its thinking
    assert found(tables, "tool_calls", "name", text="sex") == ["count"]
    assert found(tables, "messages", "text", text="4.2 kg") == ["It is 4.2 kg."]
    assert found(tables, "runs", "prompt", text="broken") == ["And now?"]


def test_all_criteria_together(tables):
    first = tables["runs"]["run_id"][0]
    assert found(tables, "tool_calls", "args", run_id=first, tool="mean", errors=True, text="x") == [{"column": "x"}]
    assert found(tables, "tool_calls", "args", run_id=first, tool="count") == []


def test_of_an_empty_trace():
    tables = {name: getattr(Trace(), name) for name in TABLES}
    every = Search("run_x", "mean", "text", errors=True, text="x")
    assert [len(every.rows(tables, name)) for name in TABLES] == [0] * len(TABLES)
