"""DuckDB and Polars read saved traces directly: tables, types, joins, sums, and nested JSON by path."""

import sqlite3
from contextlib import closing

import duckdb
import pandas as pd
import polars as pl
import pytest

from nbagent import Agent, FunctionCall, LLMResponse, ScriptedProvider, Trace, Usage

SUMS = """
SELECT r.prompt, r.status, sum(c.input_tokens)::BIGINT, sum(c.cost_usd), epoch_us(min(c.started)) AS began
FROM {calls} c JOIN {runs} r USING (run_id) GROUP BY ALL ORDER BY began
"""


def double(x: int) -> int:
    """Twice x."""
    return 2 * x


@pytest.fixture
async def trace():
    facts = {"usage": Usage(100, 20, 40, 0, 5)}
    calls = [FunctionCall("double", {"x": 4}, "w1"), FunctionCall("double", {"x": "y"}, "w2")]
    turns = [LLMResponse("", calls, None, facts), LLMResponse("Ünïcode 🐧", None, "stop", facts), ValueError("broken")]
    provider = ScriptedProvider(turns, model="claude-sonnet-5")
    provider.provider_name = "claude"
    agent = Agent(provider, tools=[double])
    await agent.chat('Twice "4"?\nPlease.')
    with pytest.raises(ValueError, match="broken"):
        await agent.chat("again")
    return agent.trace


def check_sums(trace: Trace, rows: list[tuple]) -> None:
    """Check that the rows of SUMS match the tables."""
    runs = trace.runs
    assert [row[0] for row in rows] == runs["prompt"].tolist()
    assert [row[1] for row in rows] == ["ok", "error"]
    assert [row[2] for row in rows] == [200, None]
    assert rows[0][3] == pytest.approx(runs["cost_usd"][0])
    assert rows[1][3] == 0.0
    began = trace.calls.groupby("run_id", sort=False)["started"].min()
    assert [pd.Timestamp(row[4], unit="us", tz="UTC") for row in rows] == began.tolist()


def test_duckdb_reads_parquet(trace, tmp_path):
    trace.save(tmp_path / "t.parquet")
    with duckdb.connect() as database:
        tables = {name: f"'{tmp_path}/t.parquet/{name}.parquet'" for name in ("calls", "runs")}
        check_sums(trace, database.execute(SUMS.format(**tables)).fetchall())
        described = f"SELECT column_name, column_type FROM (DESCRIBE FROM {tables['calls']})"
        kinds = dict(database.execute(described).fetchall())
        assert kinds["input_tokens"] == "BIGINT"
        assert kinds["cost_usd"] == "DOUBLE"
        assert kinds["stream"] == "BOOLEAN"
        assert kinds["started"] == "TIMESTAMP WITH TIME ZONE"
        path = f"'{tmp_path}/t.parquet/tool_calls.parquet'"
        assert database.execute(f"SELECT args->>'x' FROM {path} WHERE args_valid").fetchall() == [("4",)]


def test_polars_reads_sqlite(trace, tmp_path):
    """DuckDB needs an extension that it downloads: `INSTALL sqlite; ATTACH 't.sqlite'`."""
    trace.save(tmp_path / "t.sqlite")
    arguments = "SELECT json_extract(args, '$.x') FROM tool_calls JOIN runs USING (run_id) WHERE args_valid = 1"
    with closing(sqlite3.connect(tmp_path / "t.sqlite")) as connection:
        runs = pl.read_database("SELECT * FROM runs", connection, infer_schema_length=None)
        assert connection.execute(arguments).fetchall() == [(4,)]
    assert runs["status"].to_list() == ["ok", "error"]
    assert runs.schema["cost_usd"] == pl.Float64
    started = pl.from_epoch((runs["started"] * 1e6).round().cast(pl.Int64), "us")
    assert started.to_list() == [each.to_pydatetime().replace(tzinfo=None) for each in trace.runs["started"]]
