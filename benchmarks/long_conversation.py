"""A conversation of thousands of rounds with tools: time and memory of the agent against a hand-written loop.

    python benchmarks/long_conversation.py [ROUNDS] [TIMES]

Each runs in a fresh process beside the same stand-in for the providers, one after the other, so that a busy moment
touches both alike. The agent records its trace as always. To reach, against httpx and json by hand: at most 1.7 times
the time and 1.5 times the memory; and neither grows faster than the history: a round's time grows no more than that
of the loop by hand, and a late round keeps no more memory than an early one. The exit code is 1 where a target is
missed.
"""

import importlib
import json
import subprocess
import sys
from collections.abc import Callable
from itertools import count, pairwise
from pathlib import Path
from statistics import median
from typing import Any

import psutil

PEERS = Path(__file__).parent / "peers"
sys.path.insert(0, str(PEERS))
RAW, OWN = "raw_httpx", "nbagent_httpx"
MOST_TIME, MOST_MEMORY, MOST_GROWTH = 1.7, 1.5, 1.2


def peak_mb() -> float:
    """The most memory that this process had at once, in MB."""
    try:
        import resource
    except ImportError:  # Windows
        return psutil.Process().memory_info().peak_wset / 2**20
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def watched(tool: Callable[[], Any], look: Callable[[], None]) -> Callable[[], Any]:
    """Makes the tool of `Ticks`, which then looks at the memory each hundredth time."""

    def make() -> Any:
        inner, calls = tool(), count()

        def add(a: int, b: int) -> int:
            """Add two numbers.

            Args:
                a: the first number
                b: the second number
            """
            if next(calls) % 100 == 0:
                look()
            return inner(a, b)

        return add

    return make


def measure(adapter: str, url: str, rounds: int) -> None:
    """One conversation in this process; prints its figures as JSON."""
    peer = importlib.import_module(f"adapters.{adapter}").Peer(url)
    base = importlib.import_module("adapters.base")
    peer.tool_loop("tools-3")  # imports, a connection
    process, memory = psutil.Process(), []

    class Watching(base.Ticks):
        def tool(self, kind="sync"):
            return watched(super().tool, lambda: memory.append(process.memory_info().rss / 2**10))()

    for module in (base, sys.modules[f"adapters.{adapter}"]):
        module.Ticks = Watching
    ticks = peer.tool_loop(f"tools-{rounds}")
    assert ticks.final == base.FINAL, ticks.final
    tenth, half = rounds // 10, len(memory) // 2
    cpu = [later - earlier for earlier, later in pairwise(ticks.cpu)]
    figures = {
        "seconds": ticks.wall[-1] - ticks.wall[0],
        "cpu_s": ticks.cpu[-1] - ticks.cpu[0],
        "peak_mb": peak_mb(),
        "early_ms": median(cpu[tenth : 2 * tenth]) * 1e3,
        "late_ms": median(cpu[-tenth:]) * 1e3,
        "early_kb": (memory[half] - memory[0]) / (half * 100),
        "late_kb": (memory[-1] - memory[half]) / ((len(memory) - 1 - half) * 100),
    }
    print(json.dumps(figures))


def run(adapter: str, url: str, rounds: int) -> dict[str, float]:
    """The figures of one conversation, in a fresh process."""
    command = [sys.executable, __file__, "measure", adapter, url, str(rounds)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    return json.loads(done.stdout)


def ratio(runs: dict[str, list[dict[str, float]]], key: str) -> float:
    """The median of the ratios of runs that were next to each other."""
    return median(own[key] / raw[key] for own, raw in zip(runs[OWN], runs[RAW], strict=True))


def main(rounds: int, times: int) -> int:
    """Print the figures and the targets; 1 where one is missed."""
    from run import server

    runs: dict[str, list[dict[str, float]]] = {RAW: [], OWN: []}
    with server() as url:
        for _ in range(times):
            for adapter, rows in runs.items():
                rows.append(run(adapter, url, rounds))
    print(f"A conversation of {rounds:,} rounds with a tool, medians of {times} interleaved runs\n")
    print(f"{'':32}{'in all':^24}{'a round, early → late':^40}")
    print(f"{'':14}{'seconds':>14}{'CPU s':>14}{'peak MB':>14}{'CPU ms':>20}{'KB kept':>20}")
    for adapter, rows in runs.items():
        m = {key: median(row[key] for row in rows) for key in rows[0]}
        by_round = [f"{m[f'early_{unit}']:.2f} → {m[f'late_{unit}']:.2f}" for unit in ("ms", "kb")]
        whole = "".join(f"{m[key]:14.2f}" for key in ("seconds", "cpu_s", "peak_mb"))
        print(f"{adapter:14}{whole}{by_round[0]:>20}{by_round[1]:>20}")
    targets = [
        ("seconds, of the loop by hand's", ratio(runs, "seconds"), MOST_TIME),
        ("peak MB, of the loop by hand's", ratio(runs, "peak_mb"), MOST_MEMORY),
        (
            "growth of a round's CPU, of the loop by hand's",
            ratio(runs, "late_ms") / ratio(runs, "early_ms"),
            MOST_GROWTH,
        ),
        (
            "KB kept by a late round, of an early one's",
            median(r["late_kb"] / r["early_kb"] for r in runs[OWN]),
            MOST_GROWTH,
        ),
    ]
    print()
    for what, value, most in targets:
        print(f"  {what:48} {value:5.2f}  (at most {most})  {'met' if value <= most else 'MISSED'}")
    return int(any(value > most for _, value, most in targets))


if __name__ == "__main__":
    if sys.argv[1:2] == ["measure"]:
        measure(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    else:
        numbers = [int(text) for text in sys.argv[1:]]
        sys.exit(main(*numbers, *[2_000, 3][len(numbers) :]))
