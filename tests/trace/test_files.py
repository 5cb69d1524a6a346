"""Saved traces load exactly, files are written completely or not at all, and other files raise a clear error."""

import os
import sqlite3

import pandas as pd
import pytest

from nbagent import Agent, FunctionCall, LLMResponse, ScriptedProvider, Trace, Usage
from nbagent.errors import ConfigurationError
from nbagent.trace.columns import COLUMNS
from nbagent.trace.schema import FORMAT

FORMATS = ("t.sqlite", "t.parquet", "t.jsonl")


def double(x: int, trimmed: float = 0.0) -> int:
    """Twice x. An argument may have the name of a column."""
    return 2 * x


@pytest.fixture
async def trace():
    facts = {"usage": Usage(100, 20, 40, 0, 5), "model": "m-1", "thinking": "hm", "usage_raw": {"a": 1}}
    calls = [FunctionCall("double", {"x": 4, "trimmed": 0.1}, "w1"), FunctionCall("double", {"x": "y"}, "w2")]
    turns = [LLMResponse("", calls, None, facts), "Ünïcode 🐧 \udcff \x00 end", ValueError("broken")]
    agent = Agent(ScriptedProvider(turns), tools=[double])
    result = await agent.chat("Twice 4?\nPlease.", metadata={"trimmed": True})
    agent.trace.score(result.run_id, "market_cap_usd", 3.2e15)
    with pytest.raises(ValueError, match="broken"):
        await agent.chat("again")
    return agent.trace


def assert_same(one: Trace, other: Trace) -> None:
    for table in COLUMNS:
        pd.testing.assert_frame_equal(
            pd.DataFrame(getattr(one, table)), pd.DataFrame(getattr(other, table)), check_exact=True
        )


@pytest.mark.parametrize("name", FORMATS)
async def test_a_round_trip_is_exact_and_a_loaded_trace_continues_recording(trace, tmp_path, name):
    Trace().save(tmp_path / name)
    assert_same(Trace(), Trace.load(tmp_path / name))
    trace.save(tmp_path / name)
    loaded = Trace.load(tmp_path / name)
    assert_same(trace, loaded)
    await Agent(ScriptedProvider(["Hi."]), trace=loaded).chat("Hello")
    assert loaded.runs["output"].tolist()[-1] == "Hi."
    assert loaded.events["event_id"].is_unique
    loaded.save(str(tmp_path / name))  # over the existing file
    assert_same(loaded, Trace.load(str(tmp_path / name)))
    with pytest.raises(ConfigurationError, match="were not kept"):
        loaded.results("double")


def test_extreme_values_survive(tmp_path):
    trace = Trace()
    given = {"session_id": None, "ts": 4e9 + 1e-6, "ended": 0.0, "replayed": True, "cost_usd": -1e15 / 3}
    for number, whole in enumerate((-(2**63), 2**63 - 1, 2**53 + 1)):
        trace.recorder.add_rows("runs", [{"run_id": f"\u2028{number}\x00\ud83d", "n_calls": whole, **given}])
    for name in FORMATS:
        trace.save(tmp_path / name)
        assert_same(trace, Trace.load(tmp_path / name))


@pytest.mark.parametrize("name", FORMATS)
def test_any_file_name_works(tmp_path, name):
    path = tmp_path / f"ä ?mode=memory&cache=shared#%41{name}"
    Trace().save(path)
    Trace.load(path)
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


async def test_traces_are_concatenated(trace):
    other = Trace()
    await Agent(ScriptedProvider(["Hi."]), trace=other).chat("Hello")
    both = Trace.concat([trace, other])
    assert both.runs["prompt"].tolist() == [*trace.runs["prompt"], "Hello"]
    assert both.events["event_id"].tolist() == list(range(len(both.events)))
    assert both.results("double").tolist() == [8]
    assert_same(Trace.concat([trace, trace]), trace)
    assert Trace.concat([]).runs.empty


def test_columns_missing_in_an_older_file_are_na_and_added_when_it_is_continued(trace, tmp_path):
    trace.save(tmp_path / "t.sqlite")
    with sqlite3.connect(tmp_path / "t.sqlite") as database:
        database.execute("ALTER TABLE runs DROP COLUMN status")
    database.close()
    loaded = Trace.load(tmp_path / "t.sqlite")
    assert loaded.runs["status"].isna().all()
    assert loaded.runs["prompt"].tolist() == trace.runs["prompt"].tolist()
    trace.stream_to(tmp_path / "t.sqlite")
    assert_same(Trace.load(tmp_path / "t.sqlite"), trace)


@pytest.mark.parametrize("version", [1, FORMAT.version + 1])
def test_a_file_with_another_version_is_an_error(tmp_path, version):
    Trace().save(tmp_path / "t.sqlite")
    with sqlite3.connect(tmp_path / "t.sqlite") as database:
        database.execute(f"PRAGMA user_version = {version}")
    database.close()
    with pytest.raises(ConfigurationError, match=rf"format version {version}, expected {FORMAT.version}"):
        Trace.load(tmp_path / "t.sqlite")


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("t.sqlite", None, "does not exist"),
        ("t.parquet", None, "No such file"),
        ("t.jsonl", None, "No such file"),
        ("t.sqlite", b"", "not a file for traces"),
        ("t.sqlite", b"not a database at all", "not a file for traces"),
        ("t.parquet", b"PAR1", r"load a trace from .*trace\.save"),
        ("t.jsonl", b"hello", r"load a trace from .*trace\.save"),
        ("t.jsonl", b'{"format": "nbagent recording", "version": 1}\n', r"line 1 is not a row: .*trace\.save"),
        ("t.jsonl", b'{"table": "runs", "row": [1]}\n', r"line 1 is not a row: .*trace\.save"),
        ("a\0b.jsonl", None, "expected a path"),
        (None, None, "expected a path"),
    ],
)
def test_other_files_raise_a_clear_error(tmp_path, name, content, told):
    path = name and tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigurationError, match=told):
        Trace.load(path)
    assert content is None or path.read_bytes() == content


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("input_tokens", "many", "a whole number"),
        ("input_tokens", 2**70, "a whole number"),
        ("cost_usd", "free", "a number"),
        ("started", 1e300, "Unix seconds"),
    ],
)
async def test_a_value_of_the_wrong_kind_is_named_when_the_file_is_loaded(trace, tmp_path, name, value, expected):
    trace.recorder.add_rows("runs", [{"run_id": "odd", name: value}])
    for path in (tmp_path / "t.sqlite", tmp_path / "t.jsonl"):
        trace.save(path)
        with pytest.raises(ConfigurationError, match=rf"{path.name}.*{name} in runs is .*, expected {expected}"):
            Trace.load(path)


def test_an_unknown_suffix_is_an_error_that_names_the_formats(tmp_path):
    for use in (Trace.load, Trace().save):
        with pytest.raises(ConfigurationError, match=r"\.sqlite, \.parquet or \.jsonl, got 't\.csv'"):
            use(tmp_path / "t.csv")


async def test_other_databases_and_truncated_files_are_errors(trace, tmp_path):
    with sqlite3.connect(tmp_path / "other.sqlite") as database:
        database.execute("CREATE TABLE runs (a)")
    database.close()
    trace.save(tmp_path / "cut.sqlite")
    trace.save(tmp_path / "cut.parquet")
    for path, size in ((tmp_path / "cut.sqlite", 30_000), (tmp_path / "cut.parquet" / "calls.parquet", 30)):
        path.write_bytes(path.read_bytes()[:-size])
    for name in ("other.sqlite", "cut.sqlite", "cut.parquet"):
        with pytest.raises(ConfigurationError, match=name):
            Trace.load(tmp_path / name)


def test_a_failed_save_keeps_the_old_file(trace, tmp_path, monkeypatch):
    def full(file):
        raise OSError("disk full")

    for name in FORMATS:
        trace.save(tmp_path / name)
    monkeypatch.setattr(os, "fsync", full)
    for name in FORMATS:
        with pytest.raises(ConfigurationError, match="can't be saved.*disk full"):
            trace.save(tmp_path / name)
        assert_same(trace, Trace.load(tmp_path / name))
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(FORMATS)
