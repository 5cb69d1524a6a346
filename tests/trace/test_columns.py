"""The tables of a trace: declared columns and dtypes, empty or not, and the values of a simple run."""

import pandas as pd
import pytest

from nbagent import Agent, FunctionCall, LLMResponse, ScriptedProvider, Trace, Usage
from nbagent.trace.columns import COLUMNS


def double(x: int) -> int:
    """Twice x."""
    return 2 * x


@pytest.fixture
async def trace():
    usage = {"usage": Usage(100, 20, cache_read_tokens=40, reasoning_tokens=5), "model": "m-1", "thinking": "hm"}
    calls = [FunctionCall("double", {"x": 4}, "w1"), FunctionCall("double", {"x": "y"}, "w2")]
    first = LLMResponse("", calls, None, usage)
    agent = Agent(ScriptedProvider([first, "It is 8."], model="m"), tools=[double])
    await agent.chat("Twice 4?")
    return agent.trace


def test_an_empty_table_has_all_its_columns_and_their_dtypes():
    for table, columns in COLUMNS.items():
        frame = getattr(Trace(), table)
        assert len(frame) == 0
        assert frame.dtypes.astype(str).to_dict() == columns


async def test_an_unknown_price_makes_the_sum_unknown():
    provider = ScriptedProvider(["x"], model="mystery")
    provider.vendor = "nobody"
    agent = Agent(provider)
    result = await agent.chat("y")
    assert result.cost is None
    assert pd.isna(agent.trace.runs["cost_usd"].iloc[0])
    assert not agent.trace.runs["cost_known"].iloc[0]
    assert pd.isna(agent.trace.usage["cost_usd"].iloc[0])


async def test_changing_a_frame_or_an_argument_does_not_change_the_trace(trace):
    mine = trace.tool_calls
    mine.loc[0, "name"] = "changed"
    assert trace.tool_calls["name"].iloc[0] == "double"
    arguments = trace.tool_calls["args"]
    assert arguments.tolist() == trace.tool_calls["args_sent"].tolist() == [{"x": 4}, {"x": "y"}]
    arguments[0]["x"] = 5
    assert trace.tool_calls["args"][0] == trace.run(trace.runs["run_id"][0])["tool_calls"]["args"][0] == {"x": 4}
    assert "{'x': 4}" in repr(trace.tool_calls)


def test_the_display_hides_ids_and_times(trace):
    shown = repr(trace.tool_calls)
    assert "double" in shown
    assert "tool_call_id" not in shown
    assert "session_" not in shown
    html = trace.tool_calls._repr_html_()
    assert "double" in html
    assert "run_id" not in html
    assert "run_id" in trace.tool_calls[["run_id"]]._repr_html_()


async def test_a_trace_that_does_not_record_stays_empty_and_its_views_say_so():
    agent = Agent(ScriptedProvider([FunctionCall("double", {"x": 4}), "It is 8."]), tools=[double], trace=False)
    assert (await agent.chat("Twice 4?")).content == "It is 8."
    assert {name: len(getattr(agent.trace, name)) for name in COLUMNS} == dict.fromkeys(COLUMNS, 0)
    assert not agent.trace.recorder.results
    for shown in (repr(agent.trace), agent.trace._repr_html_(), agent.trace.to_text("timeline")):
        assert "nothing is recorded" in shown
    assert not agent.fork().trace.is_recording
