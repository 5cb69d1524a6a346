"""What it gains that SDKs are imported in the background: the first event of a process, with and without it.

    python benchmarks/first_event.py [--runs N] [--pause SECONDS]

Each process makes an agent, waits while somebody types the question, asks a server on loopback, and takes the time from
the question to the first event of the answer. Processes with and without the import in the background take turns, so
that only their ratio counts. To reach: half the time.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from support.loopback import Answer, Loopback, claude_said, said, sse

#: Providers with an SDK -> a model, the start of the address's path, and an answer.
PROVIDERS = {
    "openai": ("gpt-5.6-terra", "/v1", sse(said("Hi"))),
    "claude": ("claude-sonnet-5", "", claude_said("Hi")),
}
MOST = 0.5

SCRIPT = """
from time import perf_counter, sleep
from nbagent import Agent, create_provider
from nbagent.providers.http import transport

if not {background}:
    transport.import_packages = lambda package: None
agent = Agent(create_provider({provider!r}, api_key="no-key-needed", model={model!r}, base_url={url!r}))
sleep({pause})
begin = perf_counter()
for event in agent.chat_stream("Hi"):
    if event.type == "text":
        print(perf_counter() - begin)
        break
"""


async def first_event(server: Loopback, provider: str, background: bool, pause: float) -> float:
    """Seconds from the question to the first text, in a fresh process."""
    model, path, body = PROVIDERS[provider]
    server.answers = [Answer(body)]
    script = SCRIPT.format(background=background, provider=provider, model=model, url=server.url + path, pause=pause)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", script), stdout=asyncio.subprocess.PIPE, env=os.environ | {"NO_PROXY": "127.0.0.1"}
    )
    printed, _ = await process.communicate()
    return float(printed)


async def measure(runs: int, pause: float) -> bool:
    """Print a line for each provider and pause; whether the goal is met."""
    met = True
    print(f"First event of a process, medians of {runs}, in seconds\n")
    async with Loopback() as server:
        for provider in PROVIDERS:
            for wait in (0.0, pause):
                taken: dict[bool, list[float]] = {True: [], False: []}
                for _ in range(runs):
                    for background, seconds in taken.items():
                        seconds.append(await first_event(server, provider, background, wait))
                with_it, without = median(taken[True]), median(taken[False])
                ratio = with_it / without
                goal = "" if not wait else f"; goal {MOST}: {'met' if ratio <= MOST else 'MISSED'}"
                both = f"{with_it:.2f}, without {without:.2f}; ratio {ratio:.2f}"
                print(f"  {provider:7} asked after {wait:g} s: {both}{goal}")
                met = met and (not wait or ratio <= MOST)
    return met


def main() -> None:
    """Measure and print; exit with 1 if the goal is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=5, metavar="N", help="processes of each kind")
    parser.add_argument("--pause", type=float, default=5, metavar="SECONDS", help="how long somebody types")
    given = parser.parse_args()
    sys.exit(not asyncio.run(measure(given.runs, given.pause)))


if __name__ == "__main__":
    main()
