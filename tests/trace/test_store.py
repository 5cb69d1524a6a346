"""A large trace spills to a temporary file: tables stay complete, and memory is bounded."""

import json
import os
import subprocess
import sys
import threading

import numpy as np
import pandas as pd
import pytest

from nbagent import Agent, FunctionCall, ScriptedProvider, Trace
from nbagent.trace.columns import COLUMNS


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


async def test_incomplete_rows_are_visible_and_reading_does_not_change_tables():
    watched, once = Trace(max_bytes=0), Trace(max_bytes=None)
    seen = set()
    for trace in (watched, once):
        agent = asked(trace, 3)
        for number in range(3):
            async for event in agent.chat_stream(f"Twice 4? {number}"):
                if trace is watched:
                    seen.add((event.type, trace.runs["status"].iloc[-1], trace.tool_calls["result_text"].count()))
    assert {("tool_call", "running", 0), ("tool_result", "running", 1), ("done", "ok", 3)} <= seen
    for name in COLUMNS:
        pd.testing.assert_frame_equal(getattr(watched, name).shown(), getattr(once, name).shown())
    assert watched.summary_lines() == once.summary_lines()
    middle = watched.runs["run_id"][1]
    assert watched.run(middle)["tool_calls"]["result_text"].tolist() == ["8"]
    assert "Twice 4? 1" in str(watched.transcript(middle))
    assert_same(tables(Trace.concat([watched])), tables(watched))


# In a separate process, because the garbage of a whole test run would be traced and collected sixty times.
PEAKS = '''
import asyncio, gc, sys, tracemalloc
from nbagent import Agent, FunctionCall, ScriptedProvider, Trace

async def peak(max_bytes, steps):
    """The peak memory of a run that clears its history while its trace keeps everything."""

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
asyncio.run(peak(None, 2))  # imports and caches
print(asyncio.run(peak(None, steps)), asyncio.run(peak(max_bytes, steps)))
'''


@pytest.mark.full
def test_memory_is_bounded_even_within_one_long_run():
    steps, most = 300, 400_000
    done = subprocess.run([sys.executable, "-c", PEAKS, str(steps), str(most)], capture_output=True, text=True)
    whole, bounded = map(int, done.stdout.split())
    results = steps * 5_000  # kept by the run itself
    assert whole > results + 6 * most
    assert bounded < results + 5 * most


FORKS = """
import json, os, sys
from nbagent import Agent, ScriptedProvider, Trace

def ask(name):
    for number in range(20):
        agent.chat_sync(f"{name}{number} ".ljust(20_000, "x"))
    return [prompt.split()[0] for prompt in trace.runs["prompt"]]

trace = Trace(max_bytes=100_000)
trace.stream_to("t.sqlite")
agent = Agent(ScriptedProvider(lambda messages, functions: "y" * 20_000), trace=trace)
ask("before")
if is_parent := os.fork():
    asked = ask("parent")
    assert os.wait()[1] == 0
    trace.stream_to(None)
else:
    asked = ask("child")
    trace.stream_to("t.sqlite")
    agent.chat_sync("child20")
with open(f"{bool(is_parent)}.json", "w") as file:
    json.dump(asked, file)
sys.stdout.flush()
os._exit(0)  # the threads are the parent's
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_process_has_its_own_trace(tmp_path):
    done = subprocess.run([sys.executable, "-c", FORKS], capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    parent, child = (json.loads((tmp_path / f"{name}.json").read_text()) for name in ("True", "False"))
    assert parent == [f"{name}{number}" for name in ("before", "parent") for number in range(20)]
    assert child == [f"child{number}" for number in range(20)]
    streamed = [prompt.split()[0] for prompt in Trace.load(tmp_path / "t.sqlite").runs["prompt"]]
    assert sorted(streamed) == sorted([*parent, *child, "child20"])


async def test_results_count_towards_the_limit_and_spill_to_the_file():
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
def test_agents_in_threads_share_a_trace_while_another_thread_reads(tmp_path):
    trace, runs, agents = Trace(max_bytes=30_000), 10, 4
    trace.stream_to(tmp_path / "t.sqlite")
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
    assert_same(tables(Trace.load(tmp_path / "t.sqlite")), tables(trace))


async def test_a_full_disk_leaves_the_trace_in_memory(caplog):
    trace = Trace(max_bytes=0)
    agent = asked(trace, 2)
    trace.recorder.store.database.set_progress_handler(lambda: 1, 1)  # every statement fails
    assert str(await agent.chat("Twice 4?")).startswith("It is 8.")
    assert "the trace stays in memory" in caplog.text
    trace.recorder.store.database.set_progress_handler(None, 1)
    await agent.chat("Twice 4?")
    assert trace.runs["status"].tolist() == ["ok", "ok"]
    assert trace.results("double").tolist() == [8, 8]
