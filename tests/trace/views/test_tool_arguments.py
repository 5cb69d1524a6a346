"""The arguments and results of one tool, and the tables of one run."""

import pandas as pd
import pytest

from nbagent import Agent, FunctionCall, ScriptedProvider, Trace
from nbagent.errors import ConfigurationError
from nbagent.trace.columns import COLUMNS


def mean(column: str, digits: int | None = None, share: float = 1, robust: bool = False) -> dict:
    """A mean."""
    return {"column": column, "mean": digits}


def load(rows: int) -> pd.DataFrame:
    """A table with this many rows."""
    if rows < 0:
        raise ValueError("too few")
    return pd.DataFrame({"x": range(rows)}, index=pd.RangeIndex(10, 10 + rows))


@pytest.fixture
async def trace():
    calls = [
        FunctionCall("mean", {"column": "a", "digits": 2, "share": 1, "robust": True}, "1"),
        FunctionCall("load", {"rows": 2}, "2"),
        FunctionCall("mean", {"column": "b", "share": 0.5}, "3"),
        FunctionCall("load", {"rows": -1}, "4"),
        FunctionCall("load", {"rows": 1}, "5"),
    ]
    agent = Agent(ScriptedProvider([calls, "Done."]), tools=[mean, load])
    await agent.chat("Go.")
    return agent.trace


async def test_arguments_become_columns_with_dtypes(trace):
    args = trace.args("mean")
    assert args.index.tolist() == [0, 2]
    assert list(args.columns) == ["column", "digits", "share", "robust"]
    assert args["digits"].tolist() == [2, pd.NA]
    assert {name: str(dtype) for name, dtype in args.dtypes.items()} == {
        "column": COLUMNS["runs"]["prompt"],
        "digits": "Int64",
        "share": "Float64",
        "robust": "boolean",
    }
    assert trace.tool_calls.join(trace.args("load"), how="inner")["rows"].tolist() == [2, -1, 1]


async def test_results_are_the_values_and_dataframes_are_concatenated(trace):
    means = trace.results("mean")
    assert means.index.tolist() == [0, 2]
    assert means.tolist() == [{"column": "a", "mean": 2}, {"column": "b", "mean": None}]
    frame = trace.results("load")
    assert frame.index.names[0] == "call"
    assert frame.loc[1].equals(load(2))
    assert frame.droplevel("call")["x"].tolist() == [0, 1, 0]


async def test_dropped_values_raise_an_error():
    agent = Agent(ScriptedProvider([FunctionCall("load", {"rows": 1}, "1"), "x"]), tools=[load], trace=Trace())
    agent.trace.recorder.keep_results = False
    await agent.chat("Go.")
    with pytest.raises(ConfigurationError, match=r"'load' returned were not kept for 1 of 1 calls.*result_text"):
        agent.trace.results("load")


async def test_one_run_by_its_id(trace):
    result = await Agent(ScriptedProvider(["Hi."]), trace=trace).chat("Hello")
    tables = trace.run(result.run_id)
    assert set(tables) == set(COLUMNS)
    assert tables["runs"]["output"].tolist() == ["Hi."]
    assert tables["usage"]["n_calls"].tolist() == [1]
    assert {run for name in tables for run in tables[name]["run_id"] if name != "environment"} == {result.run_id}
    with pytest.raises(ConfigurationError, match="'run_x'.*trace.runs"):
        trace.run("run_x")
    with pytest.raises(ConfigurationError, match="<AgentResult ok"):
        trace.run(result)
