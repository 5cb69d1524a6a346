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


def test_each_criterion_selects_rows_of_every_table(tables):
    first, second, _ = tables["runs"]["run_id"]
    for wanted, name, column, values in [
        ({"run_id": second}, "tool_calls", "name", ["count"]),
        ({"tool": "count"}, "runs", "prompt", ["How many?"]),
        ({"tool": "mean"}, "tool_calls", "args", [{"column": "mass"}, {"column": "x"}]),
        ({"tool": "count"}, "blocks", "type", ["tool_call", "tool_result"]),
        ({"tool": "unheard of"}, "runs", "prompt", []),
        ({"kind": "thinking"}, "blocks", "text", ["Weigh them (all)."]),
        ({"kind": "tool_result"}, "messages", "role", ["tool"] * 3),
        ({"errors": True}, "runs", "prompt", ["And now?"]),
        ({"errors": True}, "calls", "error_type", ["ValueError"]),
        ({"errors": True}, "tool_calls", "args", [{"column": "x"}]),
        ({"errors": True}, "messages", "role", ["assistant", "tool"]),
        ({"text": "THEM (all"}, "runs", "prompt", ["How heavy?"]),  # not a pattern; found in its thinking
        ({"text": "sex"}, "tool_calls", "name", ["count"]),
        ({"run_id": first, "tool": "mean", "errors": True, "text": "x"}, "tool_calls", "args", [{"column": "x"}]),
    ]:
        assert Search(**wanted).rows(tables, name)[column].tolist() == values, (wanted, name)


def test_empty_criteria_match_everything_and_an_empty_trace_has_nothing(tables):
    empty = {name: getattr(Trace(), name) for name in TABLES}
    every = Search("run_x", "mean", "text", errors=True, text="x")
    for name in TABLES:
        assert Search().rows(tables, name).equals(tables[name])
        assert every.rows(empty, name).empty
