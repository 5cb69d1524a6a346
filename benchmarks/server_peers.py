"""Streams over HTTP beside pydantic-ai's AG-UI adapter and a route by hand, in one run.

    python benchmarks/server_peers.py [--rounds N] [--requests N]

Four servers, each in a process of its own, pass on the same paced answers (20 pieces, 2 ms apart) of a stand-in for
OpenAI: pydantic-ai's `AGUIAdapter` in FastAPI; FastAPI with the openai SDK, by hand, which checks no token and keeps
nothing; nbagent with conversations in memory, and in SQLite. Eight clients ask each in turns. To reach: less CPU for a
request than both others, with SQLite too.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter
from typing import Any
from uuid import uuid4

import psutil
from fastapi import FastAPI, Request, Response
from fastapi.responses import StreamingResponse

sys.path.insert(0, str(Path(__file__).parent / "peers"))
from run import server as model_server

TOKEN = "a-token-of-the-benchmark"
CLIENTS, MODEL, LAST = 8, "text-20-d2", b"w19"
SIDES = {
    "pydantic-ai, AGUIAdapter": "pydantic_ai",
    "FastAPI and openai, by hand": "by_hand",
    "nbagent, memory": "memory:",
    "nbagent, SQLite": "kept.sqlite",
}


def pydantic_ai(url: str) -> Any:
    """An agent of pydantic-ai behind its own adapter."""
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider
    from pydantic_ai.ui.ag_ui import AGUIAdapter

    agent = Agent(OpenAIChatModel(MODEL, provider=OpenAIProvider(base_url=url, api_key="k")))
    app = FastAPI()

    @app.post("/ag-ui")
    async def run(request: Request) -> Response:
        return await AGUIAdapter.dispatch_request(request, agent=agent)

    return app


def by_hand(url: str) -> Any:
    """What one writes first: each piece of the answer as a line."""
    from openai import AsyncOpenAI

    client, app = AsyncOpenAI(base_url=url, api_key="k"), FastAPI()

    async def lines(messages: list[Any]) -> AsyncIterator[str]:
        stream = await client.chat.completions.create(model=MODEL, messages=messages, stream=True)
        async for chunk in stream:
            if chunk.choices and (text := chunk.choices[0].delta.content):
                yield f"data: {json.dumps({'text': text})}\n\n"

    @app.post("/ag-ui")
    async def run(body: dict[str, Any]) -> StreamingResponse:
        messages = [{"role": each["role"], "content": each["content"]} for each in body["messages"]]
        return StreamingResponse(lines(messages), media_type="text/event-stream")

    return app


def nbagent(url: str, store: str) -> Any:
    """An agent of nbagent, with tokens, a store and everything else that is on by default."""
    from nbagent import Agent, create_provider
    from nbagent.server.app import create_app
    from nbagent.server.conversations.opening import open_store
    from nbagent.server.settings import ServerSettings

    settings = ServerSettings(tokens=[TOKEN], requests_per_minute=None, max_concurrent=None)
    return create_app(Agent(create_provider("open_source", model=MODEL, base_url=url)), settings, open_store(store))


PEERS = {"pydantic_ai": pydantic_ai, "by_hand": by_hand}


def serve(side: str, url: str) -> None:
    """Serve until the process is ended; prints the port."""
    import socket

    import uvicorn

    from nbagent.thread_server import config as nbagents_config

    app = PEERS[side](url) if side in PEERS else nbagent(url, side)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        print(listening.getsockname()[1], flush=True)
        config = uvicorn.Config(app, log_config=None, access_log=False) if side in PEERS else nbagents_config(app, 5)
        uvicorn.Server(config).run([listening])


@contextmanager
def served(side: str, url: str, folder: str) -> Iterator[tuple[int, psutil.Process]]:
    """The port and the process of a server."""
    command = [sys.executable, os.path.abspath(__file__), "--serve", side, "--url", url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=folder) as process:
        try:
            yield int(process.stdout.readline()), psutil.Process(process.pid)
        finally:
            process.terminate()


async def ask(port: int, numbers: Iterator[int]) -> list[float]:
    """The seconds of requests on one connection, as long as there are numbers; each answer is checked."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**20)
    seconds = []
    for number in numbers:
        messages = [{"id": "1", "role": "user", "content": f"Is {number} a number?"}]
        given = {"threadId": str(uuid4()), "runId": str(uuid4()), "messages": messages}
        body = json.dumps({**given, "state": {}, "tools": [], "context": [], "forwardedProps": {}}).encode()
        head = (
            f"POST /ag-ui HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\nAccept: text/event-stream\r\n"
        )
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        begin = perf_counter()
        writer.write(head.encode() + body)
        answer = await reader.readuntil(b"\r\n0\r\n\r\n")
        seconds.append(perf_counter() - begin)
        if not answer.startswith(b"HTTP/1.1 200") or LAST not in answer:
            raise RuntimeError(answer.decode())
    writer.close()
    return seconds


async def block(port: int, process: psutil.Process, count: int) -> tuple[list[float], float, float]:
    """Seconds of each request, seconds in all, and CPU seconds of the server."""
    numbers = iter(range(count))
    busy, begin = process.cpu_times(), perf_counter()
    asked = await asyncio.gather(*(ask(port, numbers) for _ in range(CLIENTS)))
    took, after = perf_counter() - begin, process.cpu_times()
    return [each for seconds in asked for each in seconds], took, after.user + after.system - busy.user - busy.system


def measure(rounds: int, count: int) -> bool:
    """Measure all sides in turns; whether the goal is met."""
    found: dict[str, list[tuple[list[float], float, float]]] = {name: [] for name in SIDES}
    with ExitStack() as running:
        url = running.enter_context(model_server()) + "/v1"
        folder = running.enter_context(tempfile.TemporaryDirectory())
        servers = {name: running.enter_context(served(side, url, folder)) for name, side in SIDES.items()}
        for port, process in servers.values():
            asyncio.run(block(port, process, 5 * CLIENTS))  # what is imported with the first request
        for _ in range(rounds):
            for name, (port, process) in servers.items():
                found[name].append(asyncio.run(block(port, process, count)))
    print(f"{rounds} rounds of {count} requests by {CLIENTS} clients; load {os.getloadavg()[0]:.1f}")
    cpu = {}
    for name, blocks in found.items():
        seconds = quantiles([1000 * each for block in blocks for each in block[0]], n=100)
        cpu[name] = median(1000 * busy / count for _, _, busy in blocks)
        rate = median(count / took for _, took, _ in blocks)
        print(f"  {name:28} {rate:5.1f}/s, p50 {seconds[49]:.0f} ms, p95 {seconds[94]:.0f} ms, CPU {cpu[name]:.1f} ms")
    peers = min(cpu[name] for name in SIDES if not name.startswith("nbagent"))
    met = all(cpu[name] < peers for name in SIDES if name.startswith("nbagent"))
    print(f"  less CPU than both others: {'met' if met else 'MISSED'}")
    return met


def main() -> None:
    """Measure and print; exit with 1 if the goal is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=80)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.serve, arguments.url)
    elif not measure(arguments.rounds, arguments.requests):
        sys.exit(1)


if __name__ == "__main__":
    main()
