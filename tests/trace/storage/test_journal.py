"""A file that grows with the trace equals it after each run, and can be read before that and after a crash."""

import asyncio
import json

import pandas as pd
import pytest
from support.killed import killed
from support.together import run_together

from nbagent import Agent, FunctionCall, ScriptedProvider, Trace
from nbagent.errors import ConfigurationError
from nbagent.trace.columns import COLUMNS, TIME
from nbagent.trace.storage.journal import TIMES


def double(x: int) -> int:
    """Twice x."""
    return 2 * x


def agent(trace: Trace | None = None) -> Agent:
    turns = [FunctionCall("double", {"x": 4}, "1"), "It is 8.", "Ünïcode 🐧", ValueError("no")]
    return Agent(ScriptedProvider(turns), tools=[double], trace=trace)


def assert_same(one: Trace, other: Trace) -> None:
    for table in COLUMNS:
        pd.testing.assert_frame_equal(pd.DataFrame(getattr(one, table)), pd.DataFrame(getattr(other, table)))


def test_the_columns_with_times():
    assert {name for table in COLUMNS.values() for name, dtype in table.items() if dtype == TIME} == {*TIMES, "day"}


async def test_the_file_equals_the_trace_after_each_run(tmp_path):
    path = tmp_path / "t.jsonl"
    asked = agent()
    await asked.chat("Twice 4?")
    asked.trace.stream_to(path)
    assert_same(Trace.load(path), asked.trace)
    await asked.chat("more")
    assert_same(Trace.load(path), asked.trace)
    with pytest.raises(ValueError, match="no"):
        await asked.chat("again")
    assert_same(Trace.load(path), asked.trace)
    asked.trace.stream_to(None)
    await Agent(ScriptedProvider(["x"]), trace=asked.trace).chat("not written")
    assert len(Trace.load(path).runs) == 3


async def test_the_file_only_grows(tmp_path):
    path, before = tmp_path / "t.jsonl", b""
    asked = agent()
    asked.trace.stream_to(path)
    async for _ in asked.chat_stream("Twice 4?"):
        now = path.read_bytes()
        assert now.startswith(before)
        before = now
        Trace.load(path)
    numbered = [(line["table"], line["n"]) for line in map(json.loads, before.splitlines()[1:])]
    assert len(set(numbered)) < len(numbered)  # rows that were completed later
    assert_same(Trace.load(path), asked.trace)


async def test_a_saved_file_can_be_appended_to(tmp_path):
    path = tmp_path / "t.jsonl"
    asked = agent()
    await asked.chat("Twice 4?")
    asked.trace.save(path)
    asked.trace.stream_to(path)
    await asked.chat("more")
    assert_same(Trace.load(path), asked.trace)
    loaded = Trace.load(path)
    loaded.save(path)
    loaded.stream_to(path)
    await Agent(ScriptedProvider(["on"]), trace=loaded).chat("x")
    assert_same(Trace.load(path), loaded)


async def test_several_traces_may_append_to_one_file_in_turn(tmp_path):
    path = tmp_path / "t.jsonl"
    for number in range(3):
        trace = Trace()
        trace.stream_to(path)
        await Agent(ScriptedProvider([f"answer {number}"]), trace=trace).chat("x")
        path.write_bytes(path.read_bytes() + b'{"table": "ru')  # what a crash leaves
    assert Trace.load(path).runs["output"].tolist() == ["answer 0", "answer 1", "answer 2"]
    loaded = Trace.load(path)
    loaded.stream_to(path)
    await Agent(ScriptedProvider(["on"]), trace=loaded).chat("x")
    assert_same(Trace.load(path), loaded)


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


def test_the_file_is_a_trace_from_the_start(tmp_path, monkeypatch):
    """A process that is killed before it recorded anything leaves an empty trace or no file, but no empty file."""
    path = tmp_path / "t.jsonl"

    def die(source, target):
        assert source.read_bytes().endswith(b"\n")
        assert not path.exists()
        raise SystemExit("killed")

    with monkeypatch.context() as patch:
        patch.setattr("os.link", die)
        with pytest.raises(SystemExit, match="killed"):
            Trace().stream_to(path)
    assert not list(tmp_path.iterdir())
    Trace().stream_to(path)
    assert Trace.load(path).runs.empty
    path.write_bytes(b"")
    with path.open("rb") as reader:  # a file that somebody made and follows goes on to be that file
        Trace().stream_to(path)
        assert b"nbagent trace" in reader.readline()


async def test_two_agents_at_once(tmp_path):
    trace = Trace()
    trace.stream_to(tmp_path / "t.jsonl")

    async def answer(messages, functions):
        await asyncio.sleep(0)
        return messages[-1].content

    agents = [Agent(ScriptedProvider(answer), trace=trace) for _ in range(8)]
    await asyncio.gather(*(one.chat(str(number)) for number, one in enumerate(agents)))
    assert_same(Trace.load(tmp_path / "t.jsonl"), trace)


NEWCOMERS = """
import sys
from nbagent import Agent, ScriptedProvider, Trace
agent = Agent(ScriptedProvider(["x" * 20_000]))
print("ready", flush=True)
sys.stdin.readline()
for number in range(20):
    agent = Agent(ScriptedProvider(["x" * 20_000]))
    agent.trace.stream_to(sys.argv[1])
    agent.chat_sync(f"{sys.argv[2]} {number}")
"""


def test_newcomers_of_several_processes_lose_no_run(tmp_path):
    path = tmp_path / "t.jsonl"
    run_together(NEWCOMERS, *[(path, who) for who in "abc"])
    runs = Trace.load(path).runs
    assert sorted(runs["prompt"]) == sorted(f"{who} {number}" for who in "abc" for number in range(20))
    assert set(runs["status"]) == {"ok"}


async def test_what_another_process_left_of_a_line_is_cut_before_the_next_line(tmp_path):
    path = tmp_path / "t.jsonl"
    asked = agent()
    asked.trace.stream_to(path)
    path.write_bytes(path.read_bytes() + b'{"table": "ru')  # another process was killed
    await asked.chat("Twice 4?")
    assert_same(Trace.load(path), asked.trace)


async def test_a_full_disk_ends_the_file_but_not_the_run(tmp_path, caplog):
    asked = agent()
    asked.trace.stream_to(tmp_path / "t.jsonl")
    (tmp_path / "t.jsonl").unlink()
    (tmp_path / "t.jsonl").mkdir()  # can't be opened any more
    assert str(await asked.chat("Twice 4?")) == "It is 8."
    assert "no longer written to" in caplog.text


KILLED = """
import sys
from nbagent import Agent, ScriptedProvider
agent = Agent(ScriptedProvider(lambda messages, functions: "x" * 5_000))
agent.trace.stream_to(sys.argv[1])
number = 0
while True:
    agent.clear_history()
    agent.chat_sync(str(number))
    number += 1
    print(number, flush=True)
"""


def test_a_kill_leaves_every_complete_turn(tmp_path):
    path = tmp_path / "t.jsonl"
    runs = 0
    for kill, done in enumerate(killed(KILLED, path, 2)):
        found = Trace.load(path).runs
        assert (found["status"] == "ok").sum() >= runs + done
        runs = int((found["status"] == "ok").sum())
        assert len(found) <= runs + kill + 1
