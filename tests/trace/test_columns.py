"""The tables of a trace: declared columns and dtypes, empty or not, and the values of a simple run."""

import pandas as pd
import pytest

from nbagent import Agent, FunctionCall, LLMResponse, ScriptedProvider, Trace, Usage
from nbagent.trace.columns import COLUMNS, DISPLAYED


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
    for table in COLUMNS:
        frame = getattr(Trace(), table)
        assert isinstance(frame, pd.DataFrame)
        assert len(frame) == 0
        assert frame.dtypes.astype(str).to_dict() == COLUMNS[table]
        assert list(frame.columns) == list(COLUMNS[table])
        assert {"run_id", "session_id", "ts"} <= set(frame.columns)


def test_a_tool_call_is_a_row(trace):
    row = trace.tool_calls.iloc[0]
    assert (row["name"], row["args"], row["result_text"], row["result_type"]) == ("double", {"x": 4}, "8", "int")
    assert (bool(row["args_valid"]), bool(row["is_error"]), row["wire_id"]) == (True, False, "w1")
    wrong = trace.tool_calls.iloc[1]
    assert not wrong["args_valid"]
    assert "x: must be an integer" in wrong["validation_error"]
    assert wrong["result_type"] is pd.NA or pd.isna(wrong["result_type"])


def test_tokens_add_up(trace):
    calls, run = trace.calls, trace.runs.iloc[0]
    assert calls["input_tokens"].iloc[0] == 100
    assert run["total_tokens"] == calls["total_tokens"].sum() == trace.usage["total_tokens"].sum()
    assert (run["n_calls"], run["n_tool_calls"], run["status"]) == (2, 2, "ok")
    assert trace.usage["n_calls"].sum() == 2


def test_an_unknown_price_is_na_never_zero():
    from nbagent.pricing import price

    assert price(Usage(10, 10), "no-such-model", "openai") is None
    assert price(Usage(1_000_000, 0), "claude-sonnet-5", "claude") == pytest.approx(2.0)
    assert price(Usage(10, 10), "SmolLM2", "local") == 0.0


async def test_an_unknown_price_makes_the_sum_unknown():
    provider = ScriptedProvider(["x"], model="mystery")
    provider.vendor = "nobody"
    agent = Agent(provider)
    result = await agent.chat("y")
    assert result.cost is None
    assert pd.isna(agent.trace.runs["cost_usd"].iloc[0])
    assert not agent.trace.runs["cost_known"].iloc[0]
    assert pd.isna(agent.trace.usage["cost_usd"].iloc[0])


def test_changing_a_frame_does_not_change_the_trace(trace):
    mine = trace.tool_calls
    mine.loc[0, "name"] = "changed"
    assert trace.tool_calls["name"].iloc[0] == "double"


async def test_arguments_are_objects_and_changing_one_does_not_change_the_trace(trace):
    arguments = trace.tool_calls["args"]
    assert arguments.tolist() == trace.tool_calls["args_sent"].tolist() == [{"x": 4}, {"x": "y"}]
    assert trace.tool_calls["args_repaired"].tolist() == [None, None]
    arguments[0]["x"] = 5
    assert trace.tool_calls["args"][0] == trace.run(trace.runs["run_id"][0])["tool_calls"]["args"][0] == {"x": 4}
    assert "{'x': 4}" in repr(trace.tool_calls)


def test_a_frame_with_a_removed_column_displays_all_others(trace):
    mine = trace.tool_calls
    del mine["name"]
    assert "run_id" in repr(mine)
    assert "run_id" in mine._repr_html_()


def test_the_display_hides_ids_and_times(trace):
    shown = repr(trace.tool_calls)
    assert "double" in shown
    assert "tool_call_id" not in shown
    assert "session_" not in shown
    html = trace.tool_calls._repr_html_()
    assert "double" in html
    assert "run_id" not in html
    assert "run_id" in trace.tool_calls[["run_id"]]._repr_html_()


def test_the_display_escapes_html():
    import asyncio

    agent = Agent(ScriptedProvider(["<script>alert(1)</script>"]))
    asyncio.run(agent.chat("<img src=x onerror=alert(1)>"))
    html = agent.trace.messages._repr_html_()
    assert "<script>" not in html
    assert "<img" not in html


def test_events_are_rows_except_pieces_of_text(trace):
    types = trace.events["type"].tolist()
    assert types[0] == "run_started"
    assert types[-1] == "done"
    assert "text" not in types
    assert types.count("tool_result") == 2


def test_what_is_worth_reading_comes_first_and_ids_last():
    for table, names in ((table, list(columns)) for table, columns in COLUMNS.items()):
        ids = [name for name in names if name.endswith(("_id", "_hash"))]
        assert max(map(names.index, DISPLAYED[table])) < min(map(names.index, ids))
        assert names[-2] == "cell_id"
        assert "session_id" in names[-4:]
