"""A file that grows with the trace equals it after each run, and can be read before that and after a crash."""

from pathlib import Path

import pandas as pd
import pytest
from support.together import run_together

from nbagent import Agent, FunctionCall, ScriptedProvider, Trace
from nbagent.errors import ConfigurationError
from nbagent.trace.columns import COLUMNS


def double(x: int) -> int:
    """Twice x."""
    return 2 * x


def agent(trace: Trace | None = None) -> Agent:
    turns = [FunctionCall("double", {"x": 4}, "1"), "It is 8.", "Ünïcode 🐧", ValueError("no")]
    return Agent(ScriptedProvider(turns), tools=[double], trace=trace)


def assert_same(one: Trace, other: Trace) -> None:
    for table in COLUMNS:
        pd.testing.assert_frame_equal(pd.DataFrame(getattr(one, table)), pd.DataFrame(getattr(other, table)))


def tear(path: Path) -> None:
    """Leave in a file what a process leaves that was killed as it wrote a line."""
    path.write_bytes(path.read_bytes() + b'{"table": "ru')


async def test_the_file_equals_the_trace_after_each_run_and_only_grows(tmp_path, monkeypatch):
    path, before = tmp_path / "t.jsonl", b""
    asked = agent()
    monkeypatch.chdir(tmp_path)
    asked.trace.stream_to("t.jsonl")
    monkeypatch.chdir("/")
    async for _ in asked.chat_stream("Twice 4?"):
        now = path.read_bytes()
        assert now.startswith(before)
        before = now
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
    path = tmp_path / "t.jsonl"
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


async def test_several_traces_may_append_to_one_file_and_cut_what_a_crash_left_of_a_line(tmp_path):
    path = tmp_path / "t.jsonl"
    for number in range(3):
        trace = Trace()
        trace.stream_to(path)
        tear(path)  # while this one has the file open
        await Agent(ScriptedProvider([f"answer {number}"]), trace=trace).chat("x")
        tear(path)  # before the next one opens it
    assert Trace.load(path).runs["output"].tolist() == ["answer 0", "answer 1", "answer 2"]


def test_files_that_cannot_be_appended_to_are_errors(tmp_path):
    (tmp_path / "other.jsonl").write_text("hello\n")
    for name, words in (
        ("t.sqlite", r"\.jsonl, got .*t\.sqlite"),
        ("other.jsonl", "not a saved trace"),
        ("a/b.jsonl", "No such"),
    ):
        with pytest.raises(ConfigurationError, match=words):
            Trace().stream_to(tmp_path / name)
    assert (tmp_path / "other.jsonl").read_text() == "hello\n"


def test_an_empty_file_becomes_a_trace_and_stays_the_file_that_somebody_follows(tmp_path):
    path = tmp_path / "t.jsonl"
    path.touch()
    with path.open("rb") as reader:
        Trace().stream_to(path)
        assert b"nbagent trace" in reader.readline()
    assert Trace.load(path).runs.empty


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


def test_newcomers_of_several_processes_lose_no_run(tmp_path):
    path = tmp_path / "t.jsonl"
    run_together(NEWCOMERS, *[(path, who) for who in "ab"])
    runs = Trace.load(path).runs
    assert sorted(runs["prompt"]) == sorted(f"{who} {number}" for who in "ab" for number in range(20))
    assert set(runs["status"]) == {"ok"}


async def test_a_full_disk_ends_the_file_but_not_the_run(tmp_path, caplog):
    asked = agent()
    asked.trace.stream_to(tmp_path / "t.jsonl")
    (tmp_path / "t.jsonl").unlink()
    (tmp_path / "t.jsonl").mkdir()  # can't be opened any more
    assert str(await asked.chat("Twice 4?")) == "It is 8."
    assert "no longer written to" in caplog.text
