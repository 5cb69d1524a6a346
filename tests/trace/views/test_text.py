"""Views of a trace as plain text."""

import asyncio
import re

import pytest

from nbagent import Agent, FunctionCall, FunctionRegistry, LLMResponse, ScriptedProvider, Trace, Usage
from nbagent.errors import ConfigurationError
from nbagent.trace.views.timeline import spans


def double(x: int) -> int:
    """Twice x."""
    if x < 0:
        raise ValueError("negative")
    return 2 * x


def wipe(table: str) -> str:
    """Delete a table."""
    return "gone"


@pytest.fixture
async def trace():
    facts = {"usage": Usage(1100, 20, 40, 0, 5), "model": "claude-sonnet-5"}
    calls = [FunctionCall("double", {"x": 4}, "1"), FunctionCall("double", {"x": -1}, "2")]
    turns = [LLMResponse("", calls, None, facts), LLMResponse("It is 8.", None, "stop", facts), "Hi."]
    provider = ScriptedProvider(turns, delay=0.01, model="claude-sonnet-5")
    provider.vendor = "claude"
    agent = Agent(provider, tools=[double])
    await agent.chat("Twice 4?")
    await agent.chat("Hello")
    return agent.trace


async def test_the_timeline_has_a_line_for_each_step(trace):
    *lines, legend = trace.to_text("timeline").splitlines()
    labels = [re.split(" {2,}[^ a-z]| {4,}", line)[0].rstrip() for line in lines]
    assert labels == ["Twice 4?", "  double(x=4)", "  double(x=-1)", "claude-sonnet-5", "Hello"]
    assert sum("×" in line for line in lines) == 1
    assert lines[0].endswith(("ms", "s"))
    assert legend.strip().startswith("0 to ")
    only = trace.to_text("timeline", trace.runs["run_id"][1]).splitlines()
    assert len(only) == 2


async def test_tables_of_usage_and_tools(trace):
    lines = [line.split() for line in trace.to_text("usage").splitlines()]
    assert lines[1][:4] == ["1", "2,200", "80", "40"]
    assert lines[1][4] == f"${trace.runs['cost_usd'][0]:.4f}"
    assert len(lines) == 3
    tools = [line.split() for line in trace.to_text("tools").splitlines()]
    assert tools[1][:6] == ["double", "2", "1", "1", "0", "0"]


async def test_waiting_for_approval_is_not_time_of_the_tool():
    async def approve(call, definition):
        await asyncio.sleep(0.15)
        return call.arguments["table"] == "cities"

    calls = [FunctionCall("wipe", {"table": "cities"}, "1"), FunctionCall("wipe", {"table": "people"}, "2")]
    registry = FunctionRegistry()
    registry.register("wipe", "Delete a table.", wipe, approve=True)
    agent = Agent(ScriptedProvider([calls, "Done."]), registry, approve=approve)
    await agent.chat("Delete the cities and the people")
    found = [span for span in spans(agent.trace.calls, agent.trace.tool_calls) if "wipe" in span.label]
    assert sorted(span.kind for span in found) == ["approval", "approval", "tool"]
    assert all(span.seconds >= 0.15 for span in found if span.kind == "approval")
    assert "?" in agent.trace.to_text("timeline").splitlines()[1]
    assert "waiting for approval" in agent.trace.timeline().figure.legends[0].get_texts()[-1].get_text()
    stats = agent.trace.to_text("tools").splitlines()[1].split()
    assert stats[:6] == ["wipe", "2", "1", "0", "0", "1"]


def test_an_empty_trace_has_every_view_and_an_unknown_one_is_an_error_that_names_them():
    shown = {Trace().to_text(view) for view in ("summary", "timeline", "usage", "tools", "transcript")}
    assert shown == {"Nothing yet.", "Nothing was said yet.", "runs  0"}
    with pytest.raises(ConfigurationError, match="'summary', 'timeline', .*got 'picture'"):
        Trace().to_text("picture")
