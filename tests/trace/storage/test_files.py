"""Saved traces load exactly; files are written completely or not at all; other tools read them."""

import asyncio
import json
import sqlite3
import subprocess
import sys
from itertools import product

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nbagent import Agent, FunctionCall, LLMResponse, ScriptedProvider, Trace, Usage
from nbagent.errors import ConfigurationError, MissingDependencyError
from nbagent.trace.columns import COLUMNS, JSON, TEXT
from nbagent.trace.storage import files as store

FORMATS = ("t.sqlite", "t.parquet", "t.jsonl")


def double(x: int) -> int:
    """Twice x."""
    return 2 * x


@pytest.fixture
async def trace():
    facts = {"usage": Usage(100, 20, 40, 0, 5), "model": "m-1", "thinking": "hm", "usage_raw": {"a": 1}}
    calls = [FunctionCall("double", {"x": 4}, "w1"), FunctionCall("double", {"x": "y"}, "w2")]
    agent = Agent(ScriptedProvider([LLMResponse("", calls, None, facts), "Ünïcode 🐧 \x00 end", ValueError("broken")]))
    agent.register_function("double", "Twice", double)
    await agent.chat("Twice 4?\nPlease.")
    with pytest.raises(ValueError, match="broken"):
        await agent.chat("again")
    return agent.trace


def assert_same(one: Trace, other: Trace) -> None:
    for table in COLUMNS:
        pd.testing.assert_frame_equal(
            pd.DataFrame(getattr(one, table)), pd.DataFrame(getattr(other, table)), check_exact=True
        )


@pytest.mark.parametrize("name", FORMATS)
async def test_a_round_trip_is_exact(trace, tmp_path, name):
    Trace().save(tmp_path / name)
    assert_same(Trace(), Trace.load(tmp_path / name))
    trace.save(tmp_path / name)
    loaded = Trace.load(tmp_path / name)
    assert_same(trace, loaded)
    loaded.save(str(tmp_path / f"again_{name}"))
    assert_same(trace, Trace.load(str(tmp_path / f"again_{name}")))


ROWS = st.fixed_dictionaries(
    {
        "run_id": st.text(),
        "session_id": st.none() | st.text(),
        "ts": st.floats(0, 4e9),
        "n_calls": st.none() | st.integers(-(2**63), 2**63 - 1),
        "cost_usd": st.none() | st.floats(-1e15, 1e15),
        "replayed": st.none() | st.booleans(),
        "ended": st.none() | st.floats(0, 4e9),
    }
)


@settings(max_examples=5)  # each is many rows
@given(st.lists(ROWS, min_size=5, max_size=10))
def test_any_values_survive(tmp_path_factory, rows):
    trace = Trace()
    trace.recorder.tables["runs"].rows += rows
    folder = tmp_path_factory.mktemp("any")
    for name in FORMATS:
        trace.save(folder / name)
        assert_same(trace, Trace.load(folder / name))


async def test_a_path_may_begin_with_a_tilde(trace, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    trace.save("~/t.sqlite")
    trace.stream_to("~/t.jsonl")
    trace.save_har("~/t.har")
    assert_same(Trace.load("~/t.sqlite"), Trace.load("~/t.jsonl"))
    assert (tmp_path / "t.har").is_file()


@pytest.mark.parametrize("name", FORMATS)
async def test_a_loaded_trace_continues_recording(trace, tmp_path, name):
    trace.save(tmp_path / name)
    loaded = Trace.load(tmp_path / name)
    await Agent(ScriptedProvider(["Hi."]), trace=loaded).chat("Hello")
    assert loaded.runs["output"].tolist()[-1] == "Hi."
    assert loaded.events["event_id"].is_unique
    loaded.save(tmp_path / name)  # over the file that is there
    assert_same(loaded, Trace.load(tmp_path / name))
    with pytest.raises(ConfigurationError, match="was not kept"):
        loaded.results("double")


async def test_several_traces_become_one(trace):
    other = Trace()
    await Agent(ScriptedProvider(["Hi."]), trace=other).chat("Hello")
    both = Trace.concat([trace, other])
    assert both.runs["prompt"].tolist() == [*trace.runs["prompt"], "Hello"]
    assert both.events["event_id"].tolist() == list(range(len(both.events)))
    assert both.results("double").tolist() == [8]
    assert_same(Trace.concat([trace, trace]), trace)
    assert Trace.concat([]).runs.empty


async def test_other_tools_read_the_files(trace, tmp_path):
    for name in FORMATS:
        trace.save(tmp_path / name)
    with sqlite3.connect(tmp_path / "t.sqlite") as database:
        joined = "SELECT r.prompt FROM tool_calls t JOIN runs r USING (run_id) WHERE t.args_valid = 1"
        assert database.execute(joined).fetchall() == [("Twice 4?\nPlease.",)]
        arguments = "SELECT json_extract(args, '$.x'), args_repaired FROM tool_calls"
        assert database.execute(arguments).fetchall() == [(4, None), ("y", None)]
        (when,) = database.execute("SELECT julianday(started) FROM runs").fetchone()
    database.close()
    assert pd.to_datetime(when, unit="D", origin="julian").floor("s") <= trace.runs["started"].iloc[0].tz_localize(None)
    parquet = pd.read_parquet(tmp_path / "t.parquet" / "tool_calls.parquet")
    texts = {name: TEXT if dtype == JSON else dtype for name, dtype in COLUMNS["tool_calls"].items()}
    assert {name: str(dtype) for name, dtype in parquet.dtypes.items()} == texts
    assert parquet["args"].tolist() == ['{"x":4}', '{"x":"y"}']
    lines = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text("utf-8").splitlines()]
    assert lines[0] == {"format": "nbagent trace", "version": 1}
    calls = [line["row"] for line in lines[1:] if line["table"] == "tool_calls"]
    assert [(row["name"], row["args"]) for row in calls] == [("double", '{"x":4}'), ("double", '{"x":"y"}')]


async def test_a_newer_version_is_an_error(trace, tmp_path, monkeypatch):
    monkeypatch.setattr(store, "VERSION", 2)
    for name in FORMATS:
        trace.save(tmp_path / name)
    monkeypatch.undo()
    for name in FORMATS:
        with pytest.raises(ConfigurationError, match=r"version 2 .* up to 1\. Update nbagent"):
            Trace.load(tmp_path / name)


def test_an_unknown_suffix_is_an_error_that_names_the_formats(tmp_path):
    for use, name in product((Trace().save, Trace.load), ("t.csv", "t")):
        with pytest.raises(ConfigurationError, match=rf"\.sqlite, \.parquet, \.jsonl, got '{name}'"):
            use(tmp_path / name)


def test_other_files_are_an_error(tmp_path):
    for name in FORMATS:
        with pytest.raises(ConfigurationError, match="does not exist"):
            Trace.load(tmp_path / name)
    for head in ("[1]", "null", '{"format": "nbagent trace", "version": 1}\n{"table": "runs", "row": [1]}'):
        (tmp_path / "t.jsonl").write_text(f"{head}\n")
        with pytest.raises(ConfigurationError, match="not a saved trace"):
            Trace.load(tmp_path / "t.jsonl")
    (tmp_path / "t.jsonl").write_text('{"format": "other"}\n')
    (tmp_path / "t.sqlite").write_text("not a database at all")
    (tmp_path / "t.parquet").mkdir()
    (tmp_path / "record.jsonl").write_text('{"format": "nbagent recording", "version": 1}\n')
    with pytest.raises(ConfigurationError, match=r"is a recording.*nbagent\.replay"):
        Trace.load(tmp_path / "record.jsonl")
    Trace().save(tmp_path / "whole.parquet")
    with pytest.raises(ConfigurationError, match=r"runs.parquet' is a single file; .* a folder"):
        Trace.load(tmp_path / "whole.parquet" / "runs.parquet")
    with sqlite3.connect(tmp_path / "mine.sqlite") as database:
        database.execute("CREATE TABLE runs (a)")
    database.close()
    for name in (*FORMATS, "mine.sqlite"):
        with pytest.raises(ConfigurationError, match="not a saved trace"):
            Trace.load(tmp_path / name)
    with pytest.raises(ConfigurationError, match="can't be saved"):
        Trace().save(tmp_path / "no folder" / "t.sqlite")


def test_an_empty_file_is_an_error(tmp_path):
    for name in ("t.sqlite", "t.jsonl"):
        (tmp_path / name).touch()
        with pytest.raises(ConfigurationError, match=rf"{name}' is empty.*trace\.save"):
            Trace.load(tmp_path / name)


async def test_a_file_that_was_cut_off_is_an_error(trace, tmp_path):
    for name in ("t.sqlite", "t.parquet"):
        trace.save(tmp_path / name)
        path = tmp_path / name if name == "t.sqlite" else tmp_path / name / "calls.parquet"
        path.write_bytes(path.read_bytes()[:-30_000] if name == "t.sqlite" else path.read_bytes()[:-30])
        with pytest.raises(ConfigurationError, match=rf"{name}' is not a saved trace"):
            Trace.load(tmp_path / name)


def test_a_file_without_a_complete_first_line_is_an_error(tmp_path):
    for text in ("hello", '{"format": "nbagent tr', '{"mine": 1}'):
        (tmp_path / "t.jsonl").write_text(text)
        for use in (Trace.load, Trace().stream_to):
            with pytest.raises(ConfigurationError, match="not a saved trace"):
                use(tmp_path / "t.jsonl")
        assert (tmp_path / "t.jsonl").read_text() == text


async def test_a_torn_last_line_is_ignored_and_a_broken_line_is_an_error(trace, tmp_path):
    path = tmp_path / "t.jsonl"
    trace.save(path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-30])
    torn = Trace.load(path)
    assert torn.environment.empty, "the last line of the file"
    assert torn.runs.equals(trace.runs)
    assert torn.events.equals(trace.events)
    path.write_bytes(whole.replace(b'{"table": "calls"', b'{"table": "cal', 1))
    with pytest.raises(ConfigurationError, match="line 4 is not JSON"):
        Trace.load(path)


async def test_a_failed_save_keeps_the_old_file(trace, tmp_path, monkeypatch):
    def broken(frame):
        raise OSError("disk full")

    for name in FORMATS:
        trace.save(tmp_path / name)
    monkeypatch.setattr(store, "_plain_rows", broken)
    _, parquet = store._pyarrow()
    monkeypatch.setattr(parquet, "write_table", lambda table, path: broken(table))
    for name in FORMATS:
        with pytest.raises(ConfigurationError, match="disk full"):
            trace.save(tmp_path / name)
        assert_same(trace, Trace.load(tmp_path / name))
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(FORMATS)


def test_parquet_without_pyarrow_names_the_package(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'nbagent\[parquet\]'"):
        Trace().save(tmp_path / "t.parquet")


KILLED = """
import asyncio, sys
from pathlib import Path
from nbagent import Agent, ScriptedProvider
agent = Agent(ScriptedProvider(lambda messages, functions: "x" * 2000))
for i in range(40):
    asyncio.run(agent.chat(str(i)))
agent.trace.save(sys.argv[1])
print("saved", flush=True)
while True:
    agent.trace.save(sys.argv[1])
"""


@pytest.mark.parametrize("name", ["t.sqlite", "t.jsonl"])
def test_a_kill_while_saving_leaves_a_complete_file(tmp_path, name):
    command = [sys.executable, "-c", KILLED, str(tmp_path / name)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"saved\n"
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.1)
        process.kill()
    loaded = Trace.load(tmp_path / name)
    assert (len(loaded.rows("runs")), len(loaded.rows("calls"))) == (40, 40)


async def test_saving_while_a_run_is_in_progress(tmp_path):
    gate = asyncio.Event()

    async def answer(messages, functions):
        await gate.wait()
        return "late"

    agent = Agent(ScriptedProvider(answer))
    task = asyncio.create_task(agent.chat("x"))
    while agent.trace.calls.empty:
        await asyncio.sleep(0)
    agent.trace.save(tmp_path / "t.sqlite")
    gate.set()
    await task
    assert Trace.load(tmp_path / "t.sqlite").runs["status"].tolist() == ["running"]
    assert agent.trace.runs["status"].tolist() == ["ok"]


async def test_any_argument_and_any_score_can_be_loaded_again(tmp_path):
    def mean_of(column: str, trimmed: float = 0.0) -> float:
        """A trimmed mean."""
        return 3.0

    agent = Agent(ScriptedProvider([FunctionCall("mean_of", {"column": "x", "trimmed": 0.1}), "3"]), tools=[mean_of])
    result = await agent.chat("?", metadata={"trimmed": True})
    agent.trace.score(result.run_id, "market_cap_usd", 3.2e15)
    for name in FORMATS:
        agent.trace.save(tmp_path / name)
        assert_same(Trace.load(tmp_path / name), agent.trace)
