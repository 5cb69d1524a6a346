"""How fast tools start and schemas are found.

    python benchmarks/tools.py

Eight tools of 0.2 s that one turn calls at once, sync and async: seconds from the first start to the last end, to be at
most 1.1 times 0.2 s. And the time to look up a schema that is known, to be at most 5 µs.
"""

import asyncio
import statistics
import sys
import time
import timeit

from nbagent import Agent, FunctionCall, FunctionRegistry, ScriptedProvider
from nbagent.functions.schema.function_schema import schema_of

SECONDS, TOOLS, RUNS = 0.2, 8, 5
MOST_TIMES, MOST_LOOK_UP_US = 1.1, 5.0


def span(*, is_async: bool) -> float:
    """Seconds from the start of the first of eight calls to the end of the last."""
    times: list[float] = []

    def sync_tool() -> None:
        """Take 0.2 s."""
        times.append(time.perf_counter())
        time.sleep(SECONDS)
        times.append(time.perf_counter())

    async def async_tool() -> None:
        """Take 0.2 s."""
        times.append(time.perf_counter())
        await asyncio.sleep(SECONDS)
        times.append(time.perf_counter())

    calls = [FunctionCall("wait", {}, f"c{number}") for number in range(TOOLS)]
    registry = FunctionRegistry()
    registry.register("wait", "Wait.", async_tool if is_async else sync_tool)
    asyncio.run(Agent(ScriptedProvider([calls, "done"]), registry).chat("go"))
    return max(times) - min(times)


def annotated(text: str, limit: int = 20, exact: bool = False, tags: list[str] | None = None) -> dict[str, int]:
    """Count words.

    Args:
        text: what to count in
        limit: how many to give
    """
    return {}


def main() -> int:
    """Print both; 1 where a target is missed."""
    print(f"{TOOLS} tools of {SECONDS} s called at once, median of {RUNS}; at most {MOST_TIMES} times {SECONDS} s\n")
    missed = False
    for kind in ("sync", "async"):
        times = statistics.median(span(is_async=kind == "async") for _ in range(RUNS)) / SECONDS
        missed |= times > MOST_TIMES
        print(f"  {kind:6} {times:.3f} times")
    schema_of(annotated)
    number = 100_000
    look_up = min(timeit.repeat(lambda: schema_of(annotated), number=number, repeat=5)) / number * 1e6
    registry = FunctionRegistry()
    registry.register("annotated", "", annotated)
    listing = min(timeit.repeat(registry.list_functions, number=number // 10, repeat=5)) / (number // 10) * 1e6
    missed |= look_up > MOST_LOOK_UP_US
    print(f"\nA schema that is known: {look_up:.2f} µs (at most {MOST_LOOK_UP_US:g})")
    print(f"A function offered to a model: {listing:.2f} µs")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
