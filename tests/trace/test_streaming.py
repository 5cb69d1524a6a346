"""A streamed file equals the trace after each run, and can be read in between and after a crash."""

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing

import pandas as pd
import pytest
from support.together import run_together

from nbagent import Agent, FunctionCall, ScriptedProvider, Trace
from nbagent.errors import ConfigurationError, StoreError
from nbagent.trace.columns import COLUMNS
from nbagent.trace.store import TraceFile


def double(x: int) -> int:
    """Twice x."""
    return 2 * x


def agent(trace: Trace | None = None) -> Agent:
    turns = [FunctionCall("double", {"x": 4}, "1"), "It is 8.", "Ünïcode 🐧", ValueError("no")]
    return Agent(ScriptedProvider(turns), tools=[double], trace=trace)


def assert_same(one: Trace, other: Trace) -> None:
    for table in COLUMNS:
        pd.testing.assert_frame_equal(pd.DataFrame(getattr(one, table)), pd.DataFrame(getattr(other, table)))


async def test_the_file_equals_the_trace_after_each_run_and_is_always_readable(tmp_path, monkeypatch):
    path = tmp_path / "t.sqlite"
    asked = agent()
    monkeypatch.chdir(tmp_path)
    asked.trace.stream_to("t.sqlite")
    monkeypatch.chdir("/")
    async for _ in asked.chat_stream("Twice 4?"):
        Trace.load(path)
    assert_same(Trace.load(path), asked.trace)
    await asked.chat("more")
    with pytest.raises(ValueError, match="no"):
        await asked.chat("again")
    assert_same(Trace.load(path), asked.trace)
    asked.trace.stream_to(None)
    await Agent(ScriptedProvider(["x"]), trace=asked.trace).chat("not written")
    assert len(Trace.load(path).runs) == 3


async def test_a_saved_file_can_be_appended_to(tmp_path):
    path = tmp_path / "t.sqlite"
    asked = agent()
    await asked.chat("Twice 4?")
    asked.trace.save(path)
    asked.trace.stream_to(path)
    await asked.chat("more")
    assert_same(Trace.load(path), asked.trace)
    loaded = Trace.load(path)
    loaded.stream_to(path)
    await Agent(ScriptedProvider(["on"]), trace=loaded).chat("x")
    assert_same(Trace.load(path), loaded)


def test_files_that_cannot_be_appended_to_are_errors(tmp_path):
    (tmp_path / "other.sqlite").write_text("hello\n")
    for name, words in (
        ("t.jsonl", r"\.sqlite, got .*t\.jsonl"),
        ("other.sqlite", "not a file for traces"),
        ("a/b.sqlite", "No such"),
    ):
        with pytest.raises(ConfigurationError, match=words):
            Trace().stream_to(tmp_path / name)
    assert (tmp_path / "other.sqlite").read_text() == "hello\n"


async def test_a_failed_rewrite_keeps_the_files_content(tmp_path):
    def fail(row):
        raise OSError("disk full")

    asked, path = agent(), tmp_path / "t.sqlite"
    asked.trace.stream_to(path)
    await asked.chat("Twice 4?")
    with pytest.raises(OSError, match="disk full"):
        asked.trace.recorder.attach(TraceFile(path, fail), each_turn=False)
    assert_same(Trace.load(path), asked.trace)


async def test_rows_wait_while_another_program_reads_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr("nbagent.trace.store._TURN_BUSY_MS", 1)
    monkeypatch.setattr("nbagent.store.sqlite_file.BUSY_S", 0.01)
    asked, path = agent(), tmp_path / "t.sqlite"
    asked.trace.stream_to(path)
    with pytest.raises(ConfigurationError, match="up to date"):
        asked.trace.save(path)
    await asked.chat("Twice 4?")
    with closing(sqlite3.connect(path)) as reader:
        rows = reader.execute("SELECT * FROM events")
        rows.fetchone()
        await asked.chat("more")
        with pytest.raises(StoreError, match="another program has locked the file"):
            agent(Trace()).trace.stream_to(path)
        rows.close()
    assert len(Trace.load(path).runs) == 1
    with pytest.raises(ValueError, match="no"):
        await asked.chat("again")
    assert_same(Trace.load(path), asked.trace)


NEWCOMERS = """
import sys
from nbagent import Agent, ScriptedProvider, Trace
Agent(ScriptedProvider(["x"]))
print("ready", flush=True)
sys.stdin.readline()
for number in range(20):
    agent = Agent(ScriptedProvider(["x" * 20_000]))
    agent.trace.stream_to(sys.argv[1])
    agent.chat_sync(f"{sys.argv[2]} {number}")
"""


def test_three_processes_write_one_file_without_losing_runs(tmp_path):
    path = tmp_path / "t.sqlite"
    run_together(NEWCOMERS, *[(path, who) for who in "abc"])
    runs = Trace.load(path).runs
    assert sorted(runs["prompt"]) == sorted(f"{who} {number}" for who in "abc" for number in range(20))
    assert set(runs["status"]) == {"ok"}


async def test_a_deleted_file_stops_streaming_but_not_the_run(tmp_path, caplog):
    asked = agent()
    asked.trace.stream_to(tmp_path / "t.sqlite")
    (tmp_path / "t.sqlite").unlink()
    assert str(await asked.chat("Twice 4?")) == "It is 8."
    assert "no longer written to" in caplog.text


KILLED = '''
import sys, time
import pandas  # on a busy machine, this takes longer than a tool's timeout
from nbagent import Agent, FunctionCall, ScriptedProvider, Trace
trace = Trace(max_bytes=20_000)
turns = [FunctionCall("say", {"text": "x" * 3_000}, str(n)) for n in range(30)]

def say(text: str) -> str:
    """Say it."""
    if len(trace.tool_calls) == 30:
        print("running", flush=True)
        time.sleep(600)
    return text

trace.stream_to(sys.argv[1])
Agent(ScriptedProvider(turns), tools=[say], trace=trace).chat_sync("Go on.", max_iterations=40)
'''


def test_a_killed_process_leaves_its_turns_but_no_temporary_files(tmp_path):
    (tmp_path / "temporary").mkdir()
    paths = {"PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(tmp_path / "temporary")}
    command = [sys.executable, "-c", KILLED, str(tmp_path / "t.sqlite")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, **paths}, text=True) as process:
        assert process.stdout.readline() == "running\n"
        process.send_signal(signal.SIGKILL)
    loaded = Trace.load(tmp_path / "t.sqlite")
    assert loaded.runs["status"].tolist() == ["running"]
    assert loaded.tool_calls["result_text"].str.len().tolist() == [3_000] * 29  # the 30th was running
    assert loaded.calls["finish_reason"].tolist()[:29] == ["tool_calls"] * 29
    assert list((tmp_path / "temporary").iterdir()) == []
