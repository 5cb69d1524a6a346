"""What it costs to look at a large trace: how long the second look takes, and what stays in memory after it.

    python benchmarks/large_trace.py

The events of 3,000 runs (two model calls and one tool call each) are recorded again, as other runs, until `events` has
more than a million rows: once with the default limit of memory, once without a limit, and once saved and loaded.
Printed are, for each way to look at the trace, the CPU time of the first look, that of the second as a ratio to it, and
for tables what stays in memory when nobody holds the table any more, as a share of its size. What misses its limit ends
the script with an error.
"""

import asyncio
import gc
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from trace import Collected, ask
from typing import Any

import pyarrow as pa

from nbagent import Trace

RUNS, ROWS = 3_000, 1_000_000
#: The share of a table that may stay in memory.
MOST_LEFT = 0.05
#: The seconds that an overview by model, day or tool, or all of one run, may take.
MOST_SECONDS = 3.0
TABLES = ("events", "messages", "blocks", "calls")


def in_memory() -> int:
    """The bytes that Python, NumPy and Arrow hold."""
    gc.collect()
    return tracemalloc.get_traced_memory()[0] + pa.total_allocated_bytes()


def seconds(work: Callable[[], Any]) -> float:
    """The CPU time of a call."""
    begun = time.process_time()
    work()
    return time.process_time() - begun


def left(work: Callable[[], Any]) -> float:
    """What a call leaves in memory, as a share of what it returned."""
    tracemalloc.start()
    before = in_memory()
    found = work()
    size = in_memory() - before
    del found
    stays = in_memory() - before
    tracemalloc.stop()
    return stays / max(size, 1)


def report(name: str, trace: Trace) -> list[str]:
    """Print what each look costs; what misses its limit is returned."""
    print(f"\n{name}: {trace!r}")
    missed = []
    count = trace.recorder.counts["runs"]
    oldest, middle = (trace.recorder.rows("runs", "n = ?", place)[0]["run_id"] for place in (0, count // 2))
    looks: dict[str, Callable[[], Any]] = {
        "summary": trace.summary_lines,
        **{f'summary("{by}")': (lambda by=by: trace.summary(by)) for by in ("model", "day", "tag", "tool")},
        "run": lambda: trace.run(middle),
        "transcript": lambda: trace.transcript(middle),
        "diff": lambda: trace.diff(oldest, middle),
        **{table: (lambda table=table: getattr(trace, table)) for table in TABLES},
    }
    for what, work in looks.items():
        stays = left(work) if what in TABLES else 0.0  # before the looks that are timed
        first, second = seconds(work), seconds(work)
        print(f"  {what:<20} {first:6.2f} s, again {second / max(first, 1e-6):5.2f} of that", end="")
        print(f", {stays:.1%} stays" if what in TABLES else "")
        if stays > MOST_LEFT:
            missed.append(f"{name}, {what}: {stays:.1%} stays in memory")
        if what.startswith(("summary", "run", "transcript", "diff")) and second > MOST_SECONDS:
            missed.append(f"{name}, {what}: {second:.2f} s")
    return missed


def main() -> None:
    """Print it all; complain at the end."""
    events = asyncio.run(ask(Collected(), RUNS)).collected
    recorded_metadata = [event.metadata for event in events]

    def recorded(max_bytes: int | None) -> Trace:
        trace = Trace(max_bytes=max_bytes)
        number = 0
        while trace.recorder.counts["events"] < ROWS:
            for event, metadata in zip(events, recorded_metadata, strict=True):
                event.metadata = {**metadata, "run_id": f"{metadata['run_id']}_{number}"}
                trace.record(event)
            number += 1
        return trace

    missed = report("by default", recorded(100_000_000))
    whole = recorded(None)
    missed += report("all in memory", whole)
    with tempfile.TemporaryDirectory() as folder:
        whole.save(Path(folder) / "trace.parquet")
        del whole
        missed += report("saved and loaded", Trace.load(Path(folder) / "trace.parquet"))
    if missed:
        raise SystemExit("\n".join(missed))


if __name__ == "__main__":
    main()
