"""What a trace costs: to record, to look at, to save and to load.

    python benchmarks/trace.py

The events of 9,100 runs (two model calls and one tool call each, with a streamed answer of 20 words), of which 100,100
are rows of `events`, are recorded again, with nothing else between them. Printed are the CPU time of each event and the
memory of each row; the CPU time of the first look, in which the rows are written; the CPU time of the tables; the
seconds of each kind of file. What misses its limit ends the script with an error.
"""

import asyncio
import gc
import tempfile
import time
import tracemalloc
from pathlib import Path
from statistics import median

import pandas as pd

from nbagent import Agent, FunctionCall, ScriptedProvider, Trace
from nbagent.trace.schema import TABLES

RUNS, REPEATS = 9_100, 5
MEMORY_RUNS, SPILL = 2_000, 2_000_000
MOST_EVENT_US, MOST_SECONDS = 5.0, 3.0


def double(x: int) -> int:
    """Twice x."""
    return 2 * x


class Collected(Trace):
    """Keeps the events instead of recording them."""

    def __init__(self):
        super().__init__()
        self.collected = []
        self.record = self.collected.append


async def ask(trace: Trace, runs: int) -> Trace:
    """Have an agent asked, each time anew."""
    turns = (turn for n in range(runs) for turn in (FunctionCall("double", {"x": n}), "It is " + "word " * 18))
    agent = Agent(ScriptedProvider(turns), tools=[double], trace=trace)
    for _ in range(runs):
        agent.clear_history()
        await agent.chat("Twice that?")
    return trace


def recorded(events: list) -> tuple[Trace, float]:
    """A new trace of the events, and the seconds of CPU time that it took."""
    trace = Trace(max_bytes=None)
    begun = time.thread_time()
    for event in events:
        trace.record(event)
    return trace, time.thread_time() - begun


def ms_of(work) -> float:
    """The CPU time of a call, in milliseconds: the median of some."""
    taken = []
    for _ in range(REPEATS):
        gc.collect()
        begun = time.process_time()
        work()
        taken.append(time.process_time() - begun)
    return median(taken) * 1e3


def frame_seconds(trace: Trace) -> float:
    """Print what `events` costs; the seconds of CPU for a million rows are returned."""
    rows = trace.recorder.counts["events"]
    ours = ms_of(lambda: trace.events)
    dicts = trace.rows("events")
    made = ms_of(lambda: pd.DataFrame(dicts))
    print(f"events, {rows:,} rows: {ours:.0f} ms CPU; pd.DataFrame(list of dicts), without dtypes: {made:.0f} ms")
    return ours / rows * 1e3


def memory(max_bytes: int | None, runs: int) -> tuple[float, float]:
    """The memory that a trace takes in bytes: of each row of `events`, all tables included, and at most."""
    tracemalloc.start()
    trace = asyncio.run(ask(Trace(max_bytes=max_bytes), runs))
    gc.collect()
    taken, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return taken / trace.recorder.counts["events"], most


def files(trace: Trace) -> None:
    """Print how long saving and loading take."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("trace.sqlite", "trace.parquet", "trace.jsonl"):
            path = Path(folder) / name
            begun = time.perf_counter()
            trace.save(path)
            saved = time.perf_counter()
            Trace.load(path)
            print(f"{name}: saved in {saved - begun:.2f} s, loaded in {time.perf_counter() - saved:.2f} s")


def main() -> None:
    """Print it all; complain at the end."""
    events = asyncio.run(ask(Collected(), RUNS)).collected
    each = min(recorded(events)[1] for _ in range(REPEATS)) / len(events) * 1e6
    trace, _ = recorded(events)
    rows = trace.recorder.counts["events"]
    print(f"recording: {each:.2f} µs CPU an event ({len(events):,} events), at most {MOST_EVENT_US}; ", end="")
    print(f"{each * len(events) / rows:.2f} µs for each of the {rows:,} rows of `events`, all tables included")
    begun = time.thread_time()
    trace.recorder.flush()
    print(f"first look: {(time.thread_time() - begun) / rows * 1e6:.2f} µs CPU for each row of `events`")
    each_row, most = memory(None, MEMORY_RUNS)
    print(f"memory: {each_row:,.0f} bytes for each row of `events`, all tables included; ", end="")
    _, bounded = memory(SPILL, MEMORY_RUNS)
    print(f"of {MEMORY_RUNS:,} runs {most / 1e6:.1f} MB at most, with max_bytes={SPILL:,} {bounded / 1e6:.1f} MB")
    print(f"all tables: {ms_of(lambda: [getattr(trace, table) for table in (*TABLES, 'usage')]):.0f} ms CPU")
    million = frame_seconds(trace)
    files(trace)
    if each > MOST_EVENT_US or million > MOST_SECONDS:
        raise SystemExit(f"too slow: {each:.2f} µs an event, {million:.2f} s for a million rows of `events`")


if __name__ == "__main__":
    main()
