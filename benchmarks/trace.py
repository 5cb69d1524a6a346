"""What a trace costs: to record, to look at, to save and to load.

    python benchmarks/trace.py

The events of 9,100 runs (two model calls and one tool call each, with a streamed answer of 20 words), of which 100,100
are rows of `events`, are recorded again, with nothing else between them. Printed are the CPU time of each event and the
memory of each row; the CPU time of the tables; the seconds of each kind of file. `events` as a DataFrame is compared
with what pandas makes of the same rows, once kept by column all along and once as a list of dicts. What misses its
limit ends the script with an error.
"""

import asyncio
import gc
import tempfile
import time
import tracemalloc
from array import array
from pathlib import Path
from statistics import median

import numpy as np
import pandas as pd

from nbagent import Agent, FunctionCall, ScriptedProvider, Trace
from nbagent.trace.columns import COLUMNS, TEXT, TIME
from nbagent.trace.recorder import TABLES

RUNS, MORE, REPEATS = 9_100, 100, 5
MEMORY_RUNS, SPILL = 2_000, 2_000_000
MOST_EVENT_US, MOST_OF_COLUMNS = 5.0, 1.5


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


def by_hand(columns: dict) -> pd.DataFrame:
    """Columns that were kept while recording -> a DataFrame, as quickly as pandas does it."""
    made = {}
    for name, values in columns.items():
        if COLUMNS["events"][name] == TEXT:
            made[name] = pd.array(values, dtype=TEXT)
        elif COLUMNS["events"][name] == TIME:
            made[name] = pd.DatetimeIndex(np.rint(np.asarray(values) * 1e6).astype("M8[us]"), tz="UTC")
        else:
            made[name] = pd.array(np.asarray(values), dtype="Int64")
    return pd.DataFrame(made, copy=False)


def looked_at(trace: Trace, table: str) -> pd.DataFrame:
    """A table that was not looked at before."""
    for each in trace.recorder.tables.values():
        each.frame = None
    return getattr(trace, table)


def compare_frames(trace: Trace, later: list) -> float:
    """Print what `events` costs; what it is to columns kept by hand is returned."""
    rows = trace.rows("events")
    columns = {name: [row[name] for row in rows] for name in COLUMNS["events"]}
    columns |= {"event_id": array("q", columns["event_id"]), "ts": array("d", columns["ts"])}
    pd.testing.assert_frame_equal(by_hand(columns), pd.DataFrame(trace.events))
    ratios, taken = [], []
    for _ in range(REPEATS):
        taken.append((ms_of(lambda: looked_at(trace, "events")), ms_of(lambda: by_hand(columns))))
        ratios.append(taken[-1][0] / taken[-1][1])
    ours, kept = (median(column) for column in zip(*taken, strict=True))
    dicts = ms_of(lambda: pd.DataFrame(rows))
    print(f"events, {len(rows):,} rows: {ours:.0f} ms CPU, {median(ratios):.2f} times as long as by hand from", end=" ")
    print(f"columns that were kept ({kept:.0f} ms); pd.DataFrame(list of dicts), without dtypes: {dicts:.0f} ms")
    again = ms_of(lambda: trace.events)
    for event in later:
        trace.record(event)
    begun = time.process_time()
    more = len(trace.events) - len(rows)
    print(f"  looked at again: {again:.1f} ms; after {more} more rows: {(time.process_time() - begun) * 1e3:.1f} ms")
    return median(ratios)


def memory(max_bytes: int | None, runs: int) -> tuple[float, float]:
    """The memory that a trace takes in bytes: of each row of `events`, all tables included, and at most."""
    tracemalloc.start()
    trace = asyncio.run(ask(Trace(max_bytes=max_bytes), runs))
    gc.collect()
    taken, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return taken / len(trace.recorder.tables["events"]), most


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
    events, later = (asyncio.run(ask(Collected(), runs)).collected for runs in (RUNS, MORE // 11))
    each = min(recorded(events)[1] for _ in range(REPEATS)) / len(events) * 1e6
    trace, _ = recorded(events)
    rows = len(trace.rows("events"))
    print(f"recording: {each:.2f} µs CPU an event ({len(events):,} events), at most {MOST_EVENT_US}; ", end="")
    print(f"{each * len(events) / rows:.2f} µs for each of the {rows:,} rows of `events`, all tables included")
    each_row, most = memory(None, MEMORY_RUNS)
    print(f"memory: {each_row:,.0f} bytes for each row of `events`, all tables included; ", end="")
    _, bounded = memory(SPILL, MEMORY_RUNS)
    print(f"of {MEMORY_RUNS:,} runs {most / 1e6:.1f} MB at most, with max_bytes={SPILL:,} {bounded / 1e6:.1f} MB")
    print(f"all tables: {ms_of(lambda: [looked_at(trace, table) for table in (*TABLES, 'usage')]):.0f} ms CPU")
    ratio = compare_frames(trace, later)
    files(trace)
    if each > MOST_EVENT_US or ratio > MOST_OF_COLUMNS:
        raise SystemExit(f"too slow: {each:.2f} µs an event, {ratio:.2f} times columns kept by hand")


if __name__ == "__main__":
    main()
