"""What `agent.map` adds to hand-written requests, whether its memory stays flat, and how it bears a bad server.

    python benchmarks/batches.py [--rows N] [--memory-rows N] [--concurrency N] [--scripts text-20-d20,text-20]

The stand-in for providers of `peers/server.py` answers with 20 pieces: 5 ms apart (`d5`; models write more slowly, as
`d20` does) and all at once. The hand-written client sends the same requests with httpx2, behind a semaphore, and reads
the same streams: once over the same connections as nbagent, and once with httpx2 as it comes. Blocks of rows go to
each, to a map, and to a map with a checkpoint, in turns. Ratios compare a block with the one by hand next to it, over
the same connections. It takes five to ten minutes.

To reach: where answers are paced, a map gets through 90 % of the rows that the hand-written client does. A long map's
memory grows by less than 10 MB after its first thousand rows, beyond its results. On a server that fails 5 % of the
requests, in four ways, each row ends right or with its error.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

import httpx2
import pandas as pd
import psutil

from nbagent import Agent, Budget, Trace, create_provider
from nbagent.providers.http.address import Target
from nbagent.providers.http.client import new_http_client

sys.path.insert(0, str(Path(__file__).parent / "peers"))
from run import server

ANSWER = "".join(f"w{number:02d} " for number in range(20))
LEAST_RATIO, MOST_GROWTH_MB = 0.9, 10.0


class ByHand:
    """Requests as one would write them."""

    def __init__(self, url: str, model: str, concurrency: int, client: httpx2.AsyncClient) -> None:
        self._client = client
        self._model, self._url, self._gate = model, f"{url}/v1/chat/completions", asyncio.Semaphore(concurrency)

    async def ask(self, questions: Sequence[str]) -> list[str]:
        """The answers, in order."""
        return list(await asyncio.gather(*map(self._answer, questions)))

    async def _answer(self, question: str) -> str:
        body = {"model": self._model, "stream": True, "stream_options": {"include_usage": True}}
        messages = [{"role": "user", "content": question}]
        parts = []
        async with self._gate, self._client.stream("POST", self._url, json={**body, "messages": messages}) as response:
            response.raise_for_status()
            async for line in response.aiter_lines():
                if line.startswith("data: ") and line != "data: [DONE]":
                    parts += [choice["delta"].get("content") or "" for choice in json.loads(line[6:])["choices"]]
        return "".join(parts)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()


def agent_for(url: str, model: str, trace: Trace | bool | None = None) -> Agent:
    """An agent that asks the stand-in."""
    return Agent(create_provider("open_source", model=model, base_url=f"{url}/v1"), trace=trace)  # type: ignore[arg-type]


async def compare(url: str, model: str, rows: int, concurrency: int, folder: str) -> float:
    """Print rows a second and CPU of each way, with the trace as usual; the ratio of the map to requests by hand."""
    by_hand = ByHand(url, model, concurrency, new_http_client(Target(url, "")))
    plain = ByHand(url, model, concurrency, httpx2.AsyncClient())
    agents = [agent_for(url, model), agent_for(url, model)]

    async def mapped(questions: Sequence[str]) -> list[str]:
        return list((await agents[0].map(pd.Series(questions), concurrency=concurrency, progress=False))["answer"])

    async def kept(questions: Sequence[str]) -> list[str]:
        path = Path(folder, f"{model}.sqlite")
        return list(
            (await agents[1].map(pd.Series(questions), concurrency=concurrency, checkpoint=path, progress=False))[
                "answer"
            ]
        )

    ways = {"plain httpx2": plain.ask, "by hand": by_hand.ask, "map": mapped, "map, checkpoint": kept}
    blocks = 10
    rates: dict[str, list[float]] = {name: [] for name in ways}
    spent: dict[str, list[float]] = {name: [] for name in ways}
    for block in range(-1, blocks):  # the first one is a warm-up
        questions = [f"Question {block}, {number}" for number in range(rows // blocks)]
        for name, ask in ways.items():
            begin, busy = perf_counter(), process_time()
            answers = await ask(questions)
            seconds, busy = perf_counter() - begin, process_time() - busy
            if answers != [ANSWER] * len(questions):
                raise RuntimeError(f"{name}: wrong answers")
            if block >= 0:
                rates[name].append(len(questions) / seconds)
                spent[name].append(1000 * busy / len(questions))
    for each in (plain, by_hand, *agents):
        await each.aclose()
    shown = "; ".join(f"{name} {median(rates[name]):.0f}/s, {median(spent[name]):.2f} ms CPU" for name in ways)
    ratios = [
        median(mine / hand for mine, hand in zip(rates[name], rates["by hand"], strict=True)) for name in list(ways)[2:]
    ]
    print(f"  {model:12} {shown}; ratio {ratios[0]:.2f}, with a checkpoint {ratios[1]:.2f}", flush=True)
    return ratios[0]


async def soak(url: str, rows: int, concurrency: int, trace: Trace | bool) -> tuple[list[float], float]:
    """MB of this process after each tenth of a map, and of its results."""
    agent, budget, process, sizes = agent_for(url, "text-20", trace), Budget(), psutil.Process(), []

    async def watch() -> None:
        while True:
            if budget.account.requests >= (len(sizes) + 1) * rows / 10:
                sizes.append(process.memory_info().rss / 2**20)
            await asyncio.sleep(0.01)

    watching = asyncio.create_task(watch())
    questions = pd.Series([f"Question {number}" for number in range(rows)])
    frame = await agent.map(questions, concurrency=concurrency, budget=budget, progress=False)
    watching.cancel()
    with suppress(asyncio.CancelledError):
        await watching
    await agent.aclose()
    if not (frame["answer"] == ANSWER).all():
        raise RuntimeError("wrong answers")
    return sizes, float(frame.memory_usage(deep=True).sum()) / 2**20


def measure_memory(url: str, rows: int, concurrency: int, trace: str) -> bool:
    """Print how the memory of a process grows while it maps; whether the goal is met."""
    command = [sys.executable, __file__, "--soak", url, trace, "--memory-rows", str(rows)]
    done = subprocess.run([*command, "--concurrency", str(concurrency)], capture_output=True, text=True, check=True)
    sizes, results = json.loads(done.stdout)
    growth = sizes[-1] - sizes[0] - results
    met: bool = growth < MOST_GROWTH_MB
    shown = ", ".join(f"{size:.1f}" for size in sizes)
    print(f"  {rows} rows, {TRACES[trace]}: MB after each tenth {shown}; results {results:.1f}; ", end="")
    print(f"growth beyond these {growth:.1f}: {'met' if met else 'MISSED'}", flush=True)
    return met


TRACES = {"off": "without a trace", "spilling": "a trace of 1 MB that moves to a file"}


async def trouble(url: str, model: str, rows: int, concurrency: int) -> bool:
    """Print how rows end on a server that fails; whether each ends right or with its error."""
    agent = agent_for(url, model)
    questions = pd.Series([f"Question {number}" for number in range(rows)])
    frame = await agent.map(questions, concurrency=concurrency, progress=False)
    retries = int((agent.trace.events["type"] == "retry").sum())
    await agent.aclose()
    right = (frame["status"] == "ok") & (frame["answer"] == ANSWER)
    failed = (frame["status"] == "error") & frame["error"].notna()
    met = bool((right | failed).all())
    ends = f"{right.sum()} right, {failed.sum()} with an error, {retries} requests asked again"
    print(f"  {model:12} {rows} rows: {ends}: {'met' if met else 'MISSED'}", flush=True)
    return met


def measure(arguments: argparse.Namespace) -> bool:
    """Measure everything; whether the goals are met."""
    scripts, concurrency = arguments.scripts.split(","), arguments.concurrency
    met = True
    print(f"load of the machine: {psutil.getloadavg()[0]:.1f} on {psutil.cpu_count()} cores")
    with server() as url, tempfile.TemporaryDirectory() as folder:
        print(f"{arguments.rows} rows, {concurrency} at once, blocks in turns")
        for script in scripts:
            ratio = asyncio.run(compare(url, script, arguments.rows, concurrency, folder))
            if "-d" in script:
                met = ratio >= arguments.least and met
                print(f"    at least {arguments.least}: {'met' if ratio >= arguments.least else 'MISSED'}")
        print("Memory")
        for trace in TRACES:
            met = measure_memory(url, arguments.memory_rows, concurrency, trace) and met
        print("A server that fails")
        return asyncio.run(trouble(url, f"{scripts[0]}-f5", arguments.rows, concurrency)) and met


def main() -> None:
    """Measure and print; exit with 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--memory-rows", type=int, default=10_000)
    parser.add_argument("--concurrency", type=int, default=32)
    parser.add_argument("--scripts", default="text-20-d5,text-20")
    parser.add_argument("--least", type=float, default=LEAST_RATIO, help="the ratio to reach")
    parser.add_argument("--soak", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.soak:
        url, kind = arguments.soak
        trace = False if kind == "off" else Trace(max_bytes=2**20)
        print(json.dumps(asyncio.run(soak(url, arguments.memory_rows, arguments.concurrency, trace))))
    elif not measure(arguments):
        sys.exit(1)


if __name__ == "__main__":
    main()
