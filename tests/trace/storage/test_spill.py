"""A trace with many rows moves older ones to a temporary file: tables stay complete, memory is bounded."""

import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pandas as pd
import pytest

from nbagent import Agent, FunctionCall, ScriptedProvider, Trace
from nbagent.trace import recorder
from nbagent.trace.columns import COLUMNS
from nbagent.trace.table import SpillFile


def double(x: int) -> int:
    """Twice x."""
    return 2 * x


def asked(trace: Trace, runs: int = 1) -> Agent:
    turns = [FunctionCall("double", {"x": 4}, "1"), "It is 8. Ünïcode 🐧 \udcff \x00"] * runs
    return Agent(ScriptedProvider(turns), tools=[double], trace=trace)


def tables(trace: Trace) -> dict[str, pd.DataFrame]:
    return {name: pd.DataFrame(getattr(trace, name)) for name in COLUMNS}


def assert_same(one: dict[str, pd.DataFrame], other: dict[str, pd.DataFrame]) -> None:
    for name in COLUMNS:
        pd.testing.assert_frame_equal(one[name], other[name], check_exact=True)


def in_memory(trace: Trace, table: str) -> int:
    rows = trace.recorder.tables[table]
    return len(rows) - sum(part.count for part in rows._spilled)


async def test_tables_are_complete_after_rows_moved_to_the_file(tmp_path):
    trace = Trace(max_bytes=None)
    agent = asked(trace, 4)
    for number in range(3):
        with agent.tagged("exam"):
            await agent.chat(f"Twice 4? {number}")
        before, lines = tables(trace), trace.summary_lines()
        sums = {by: trace.summary(by) for by in ("model", "day", "tag", "tool")}
        trace.recorder.max_bytes, trace.recorder.bytes = 0, 1
        trace.recorder.end_turn()
        trace.recorder.max_bytes = None
        assert in_memory(trace, "events") == in_memory(trace, "runs") == 0
        assert_same(before, tables(trace))
        assert trace.summary_lines() == lines
        for by, frame in sums.items():
            pd.testing.assert_frame_equal(trace.summary(by), frame)
    assert all(rows.frame is None for rows in trace.recorder.tables.values()), "nothing stays after it was looked at"
    middle = trace.runs["run_id"][1]
    assert trace.run(middle)["tool_calls"]["result_text"].tolist() == ["8"]
    assert "Twice 4? 1" in str(trace.transcript(middle))
    trace.save(tmp_path / "t.parquet")
    assert_same(tables(Trace.load(tmp_path / "t.parquet")), tables(trace))
    trace.stream_to(tmp_path / "t.jsonl")  # begins with what is in the file
    await agent.chat("more")
    assert_same(tables(Trace.load(tmp_path / "t.jsonl")), tables(trace))
    assert_same(tables(Trace.concat([trace])), tables(trace))


async def test_growing_tables_equal_tables_built_from_scratch(monkeypatch):
    monkeypatch.setattr(recorder, "BATCH", 7)
    trace = Trace(max_bytes=8_000)
    agent = asked(trace, 3)
    for number in range(3):
        async for event in agent.chat_stream(str(number)):
            if event.type in ("turn_done", "tool_call", "done"):  # what is there changes after the first two
                anew = Trace.concat([trace])
                for name in ("runs", "calls", "blocks", "tool_calls", "events"):
                    pd.testing.assert_frame_equal(getattr(trace, name), getattr(anew, name), check_exact=True)
    assert in_memory(trace, "events") < len(trace.events)


# A process of its own: the garbage of a whole test run, traced, would be collected sixty times.
PEAKS = '''
import asyncio, gc, sys, tracemalloc
from nbagent import Agent, FunctionCall, ScriptedProvider, Trace

async def peak(max_bytes, steps):
    """The most bytes in use while a run clears its history and its trace keeps everything."""

    def page(number: int) -> str:
        """A page."""
        agent.clear_history()
        if number % 10 == 0:
            gc.collect()
        return f"{number} ".ljust(5_000, "x")

    turns = [FunctionCall("page", {"number": number}, str(number)) for number in range(steps)]
    trace = Trace(keep_results=False, max_bytes=max_bytes)
    agent = Agent(ScriptedProvider([*turns, "done"]), tools=[page], trace=trace)
    tracemalloc.start()
    await agent.chat("Read all pages.", max_iterations=steps + 1)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert trace.tool_calls["result_chars"].tolist() == [5_000] * steps
    return most

steps, max_bytes = map(int, sys.argv[1:])
asyncio.run(peak(None, 2))  # what is loaded once
print(asyncio.run(peak(None, steps)), asyncio.run(peak(max_bytes, steps)))
'''


@pytest.mark.full
def test_memory_is_bounded_within_one_long_run_too():
    steps, most = 300, 400_000
    done = subprocess.run([sys.executable, "-c", PEAKS, str(steps), str(most)], capture_output=True, text=True)
    whole, bounded = map(int, done.stdout.split())
    results = steps * 5_000  # those that the run itself returns
    assert whole > results + 6 * most
    assert bounded < results + 5 * most


async def test_results_count_towards_the_limit_and_move_to_the_file():
    def load(seed: int) -> pd.DataFrame:
        """Numbers."""
        return pd.DataFrame({"x": np.full(100_000, float(seed))})

    count, size, limit = 8, 800_000, 3_000_000
    trace = Trace(max_bytes=limit)
    turns = [turn for seed in range(count) for turn in (FunctionCall("load", {"seed": seed}, str(seed)), "done")]
    agent = Agent(ScriptedProvider(turns), tools=[load], trace=trace)
    for _ in range(count):
        await agent.chat("Load.")
        assert len(trace.recorder.results._kept) * size < limit
    loaded = trace.results("load")
    assert len(loaded) == count * 100_000
    assert loaded.groupby("call")["x"].first().tolist() == [float(seed) for seed in range(count)]


@pytest.mark.full
def test_agents_in_threads_share_a_trace_that_another_thread_reads(monkeypatch, tmp_path):
    monkeypatch.setattr(recorder, "BATCH", 20)
    trace, runs, agents = Trace(max_bytes=30_000), 10, 4
    trace.stream_to(tmp_path / "t.jsonl")
    faults = []

    def work(name: str) -> None:
        agent = asked(trace, runs)
        for number in range(runs):
            agent.chat_sync(f"{name}{number}")

    def look() -> None:
        try:
            while any(thread.is_alive() for thread in threads):
                events = trace.events
                assert events["event_id"].tolist() == list(range(len(events)))
        except BaseException as error:
            faults.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
    reader = threading.Thread(target=look)
    for thread in (*threads, reader):
        thread.start()
    for thread in (*threads, reader):
        thread.join()
    assert not faults
    assert sorted(trace.runs["prompt"]) == sorted(f"{name}{number}" for name in "abcd" for number in range(runs))
    assert len(trace.tool_calls) == len(trace.calls) / 2 == runs * agents
    assert in_memory(trace, "events") < len(trace.events)
    assert_same(tables(Trace.load(tmp_path / "t.jsonl")), tables(trace))


async def test_a_full_disk_leaves_the_trace_in_memory(monkeypatch, caplog):
    def full(self, columns):
        raise OSError("disk full")

    monkeypatch.setattr(SpillFile, "write", full)
    trace = Trace(max_bytes=0)
    agent = asked(trace, 2)
    for _ in range(2):
        assert str(await agent.chat("Twice 4?")).startswith("It is 8.")
    assert caplog.text.count("the trace stays in memory") == 1
    assert trace.runs["status"].tolist() == ["ok", "ok"]
    assert trace.results("double").tolist() == [8, 8]


KILLED = '''
import sys, time
from nbagent import Agent, FunctionCall, ScriptedProvider, Trace
trace = Trace(max_bytes=20_000)
turns = [FunctionCall("say", {"text": "x" * 3_000}, str(n)) for n in range(30)]

def say(text: str) -> str:
    """Says it."""
    if len(trace.tool_calls) == 30:
        print(sum(part.count for part in trace.recorder.tables["tool_calls"]._spilled), flush=True)
        time.sleep(600)
    return text

trace.stream_to(sys.argv[1])
Agent(ScriptedProvider(turns), tools=[say], trace=trace).chat_sync("Go on.", max_iterations=40)
'''


@pytest.mark.full
def test_a_killed_process_leaves_its_turns_but_no_temporary_file(tmp_path):
    (tmp_path / "temporary").mkdir()
    paths = {"PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(tmp_path / "temporary")}
    command = [sys.executable, "-c", KILLED, str(tmp_path / "t.jsonl")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, **paths}, text=True) as process:
        assert int(process.stdout.readline()) > 10  # so many rows had been moved
        process.send_signal(signal.SIGKILL)
    loaded = Trace.load(tmp_path / "t.jsonl")
    assert loaded.runs["status"].tolist() == ["running"]
    assert loaded.tool_calls["result_text"].str.len().tolist() == [3_000] * 29  # the 30th was running
    assert loaded.calls["finish_reason"].tolist()[:29] == ["tool_calls"] * 29
    assert list((tmp_path / "temporary").iterdir()) == []
