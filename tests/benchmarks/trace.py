"""What a trace costs: to record, to look at, to save and to load.

    python tests/benchmarks/trace.py

2,000 runs of two model calls and one tool call, with a streamed answer of 20 words: microseconds of each event, to be
at most 5, and seconds for all tables and for each kind of file.
"""

import asyncio
import tempfile
import time
from pathlib import Path

from nbagent import Agent, FunctionCall, ScriptedProvider, Trace
from nbagent.trace.recorder import TABLES

RUNS, MOST_EVENT_US = 2_000, 5.0


def double(x: int) -> int:
    """Twice x."""
    return 2 * x


class Timed(Trace):
    """A trace that knows how long it was at work."""

    seconds, count = 0.0, 0

    def record(self, event):
        begun = time.perf_counter()
        super().record(event)
        self.seconds += time.perf_counter() - begun
        self.count += 1


async def recorded() -> Timed:
    """The trace of all runs."""
    turns = (turn for n in range(RUNS) for turn in (FunctionCall("double", {"x": n}), "It is " + "word " * 18))
    agent = Agent(ScriptedProvider(turns), tools=[double], trace=Timed())
    for _ in range(RUNS):
        agent.clear_history()
        await agent.chat("Twice that?")
    return agent.trace


def seconds_of(work, *arguments) -> float:
    """How long a call takes."""
    begun = time.perf_counter()
    work(*arguments)
    return time.perf_counter() - begun


def main() -> None:
    """Print it all."""
    trace = asyncio.run(recorded())
    each = trace.seconds / trace.count * 1e6
    print(f"recording: {each:.2f} µs an event ({trace.count:,} events), at most {MOST_EVENT_US}")
    print(f"all tables: {seconds_of(lambda: [getattr(trace, table) for table in TABLES]):.2f} s")
    with tempfile.TemporaryDirectory() as folder:
        for name in ("trace.sqlite", "trace.parquet", "trace.jsonl"):
            path = Path(folder) / name
            print(
                f"{name}: saved in {seconds_of(trace.save, path):.2f} s, loaded in {seconds_of(Trace.load, path):.2f} s"
            )


if __name__ == "__main__":
    main()
