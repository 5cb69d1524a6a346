"""Saved traces load exactly; files are written completely or not at all; what is no trace is one clear error."""

import sqlite3

import pandas as pd
import pytest

from nbagent import Agent, FunctionCall, LLMResponse, ScriptedProvider, Trace, Usage
from nbagent.errors import ConfigurationError
from nbagent.trace.columns import COLUMNS
from nbagent.trace.storage import files as store

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
async def test_a_round_trip_is_exact_and_what_was_loaded_continues_recording(trace, tmp_path, name):
    Trace().save(tmp_path / name)
    assert_same(Trace(), Trace.load(tmp_path / name))
    trace.save(tmp_path / name)
    loaded = Trace.load(tmp_path / name)
    assert_same(trace, loaded)
    await Agent(ScriptedProvider(["Hi."]), trace=loaded).chat("Hello")
    assert loaded.runs["output"].tolist()[-1] == "Hi."
    assert loaded.events["event_id"].is_unique
    loaded.save(str(tmp_path / name))  # over the file that is there
    assert_same(loaded, Trace.load(str(tmp_path / name)))
    with pytest.raises(ConfigurationError, match="was not kept"):
        loaded.results("double")


def test_extreme_values_survive(tmp_path):
    trace = Trace()
    given = {"session_id": None, "ts": 4e9 + 1e-6, "ended": 0.0, "replayed": True, "cost_usd": -1e15 / 3}
    for number, whole in enumerate((-(2**63), 2**63 - 1, 2**53 + 1)):
        row = {"run_id": f"\u2028{number}\x00\ud83d", "n_calls": whole, **given}
        trace.recorder.tables["runs"].rows.append(row)
    for name in FORMATS:
        trace.save(tmp_path / name)
        assert_same(trace, Trace.load(tmp_path / name))


@pytest.mark.parametrize("name", FORMATS)
def test_any_name_is_the_name_of_a_file(tmp_path, name):
    path = tmp_path / f"ä ?mode=memory&cache=shared#%41{name}"
    Trace().save(path)
    Trace.load(path)
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


async def test_several_traces_become_one(trace):
    other = Trace()
    await Agent(ScriptedProvider(["Hi."]), trace=other).chat("Hello")
    both = Trace.concat([trace, other])
    assert both.runs["prompt"].tolist() == [*trace.runs["prompt"], "Hello"]
    assert both.events["event_id"].tolist() == list(range(len(both.events)))
    assert both.results("double").tolist() == [8]
    assert_same(Trace.concat([trace, trace]), trace)
    assert Trace.concat([]).runs.empty


async def test_a_newer_version_is_an_error(trace, tmp_path, monkeypatch):
    monkeypatch.setattr(store, "VERSION", 2)
    for name in FORMATS:
        trace.save(tmp_path / name)
    monkeypatch.undo()
    for name in FORMATS:
        with pytest.raises(ConfigurationError, match=r"version 2 .* up to 1\. Update nbagent"):
            Trace.load(tmp_path / name)


HEAD = b'{"format": "nbagent trace", "version": 1}\n'


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        *((name, None, "does not exist") for name in FORMATS),
        ("t.sqlite", b"", "not a saved trace"),
        ("t.jsonl", b"", "not a saved trace"),
        ("t.sqlite", b"not a database at all", r"can be read from .*not a database.*trace\.save"),
        ("t.parquet", b"PAR1", r"t\.parquet' is a single file; .* a folder"),
        ("t.jsonl", b"hello", "not a saved trace"),
        ("t.jsonl", b'{"format": "other"}\n', "not a saved trace"),
        ("t.jsonl", b'{"format": "nbagent recording", "version": 1}\n', r"is a recording.*nbagent\.replay"),
        ("t.jsonl", HEAD + b'{"table": "cal\n{}\n', "line 2 is not JSON"),
        ("t.jsonl", HEAD + b'{"table": "runs", "n": 0, "row": [1]}\n', "can be read from"),
        ("a\0b.jsonl", None, "expected a path"),
        (None, None, "expected a path"),
    ],
)
def test_what_is_no_trace_is_a_clear_error(tmp_path, name, content, told):
    path = name and tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigurationError, match=told):
        Trace.load(path)
    assert content is None or path.read_bytes() == content


def test_an_unknown_suffix_is_an_error_that_names_the_formats(tmp_path):
    for use in (Trace.load, Trace().save):
        with pytest.raises(ConfigurationError, match=r"\.sqlite, \.parquet, \.jsonl, got 't\.csv'"):
            use(tmp_path / "t.csv")


async def test_other_folders_and_databases_and_files_that_were_cut_off_are_errors(trace, tmp_path):
    (tmp_path / "t.parquet").mkdir()
    with sqlite3.connect(tmp_path / "t.sqlite") as database:
        database.execute("CREATE TABLE runs (a)")
    database.close()
    trace.save(tmp_path / "cut.sqlite")
    trace.save(tmp_path / "cut.parquet")
    for path, size in ((tmp_path / "cut.sqlite", 30_000), (tmp_path / "cut.parquet" / "calls.parquet", 30)):
        path.write_bytes(path.read_bytes()[:-size])
    for name in ("t.parquet", "t.sqlite", "cut.sqlite", "cut.parquet"):
        with pytest.raises(ConfigurationError, match=rf"{name}'.*trace\.save"):
            Trace.load(tmp_path / name)


async def test_a_failed_save_keeps_the_old_file(trace, tmp_path, monkeypatch):
    def broken(frame):
        raise OSError("disk full")

    for name in FORMATS:
        trace.save(tmp_path / name)
    monkeypatch.setattr(store, "_plain_rows", broken)
    _, parquet = store._pyarrow()
    monkeypatch.setattr(parquet, "write_table", lambda table, path: broken(table))
    for name in FORMATS:
        with pytest.raises(ConfigurationError, match="can't be saved.*disk full"):
            trace.save(tmp_path / name)
        assert_same(trace, Trace.load(tmp_path / name))
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(FORMATS)
