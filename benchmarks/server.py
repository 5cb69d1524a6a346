"""What the server adds to a request, with conversations in memory, in SQLite and in Redis.

    python benchmarks/server.py [--requests N] [--soak N] [--stores memory,sqlite,redis]

A server in a process of its own answers with a scripted provider. The first lines compare whole questions over HTTP
(new conversations) with a route of plain FastAPI that echoes its JSON body, in the same process and on the same
connections. The soak asks many questions, and looks at the server's memory meanwhile. To reach: in the soak, the memory
of the server grows by less than 10 MB after its first tenth.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from statistics import quantiles
from time import perf_counter

import psutil

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from support.redis_server import redis_server

TOKEN = "a-token-of-the-benchmark"
CONNECTIONS = 8
MOST_GROWTH_MB = 10.0


def serve(place: str) -> None:
    """Serve until the process is ended; prints the port."""
    import socket

    import uvicorn

    from nbagent import Agent, ScriptedProvider
    from nbagent.server.app import create_app
    from nbagent.server.conversations.opening import open_store
    from nbagent.server.settings import ServerSettings

    def answer(messages: object, functions: object) -> str:
        provider.requests.clear()
        return "Yes, it is."

    provider = ScriptedProvider(answer)
    settings = ServerSettings(tokens=[TOKEN], requests_per_minute=None, max_concurrent=None)
    app = create_app(Agent(provider), settings, open_store(place))

    @app.post("/echo")
    async def echo(body: dict[str, str]) -> dict[str, str]:
        return body

    with socket.create_server(("127.0.0.1", 0)) as listening:
        print(listening.getsockname()[1], flush=True)
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False))
        server.run([listening])


@contextmanager
def served(place: str) -> Iterator[tuple[int, psutil.Process]]:
    """The port and the process of a server."""
    command = [sys.executable, __file__, "--serve", place]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield int(process.stdout.readline()), psutil.Process(process.pid)
        finally:
            process.terminate()


class Connection:
    """A connection that is kept, and costs less than a client library."""

    async def open(self, port: int) -> Connection:
        """Connect."""
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", port)
        return self

    async def post(self, path: str, data: dict[str, str]) -> float:
        """Seconds from the request to the end of its answer."""
        body = json.dumps(data).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        begin = perf_counter()
        self.writer.write(head.encode() + body)
        answer = await self.reader.readuntil(b"\r\n\r\n")
        lengths = [line for line in answer.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        content = await self.reader.readexactly(int(lengths[0].partition(b":")[2]))
        if not answer.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(content.decode())
        return perf_counter() - begin


async def ask(connections: list[Connection], path: str, count: int) -> tuple[list[float], float]:
    """The seconds of each of so many requests over these connections, and how many were answered in a second."""
    numbers = iter(range(count))

    async def ask_on(connection: Connection) -> list[float]:
        return [await connection.post(path, {"message": f"Is {number} a number?"}) for number in numbers]

    begin = perf_counter()
    seconds = [each for asked in await asyncio.gather(*map(ask_on, connections)) for each in asked]
    return seconds, count / (perf_counter() - begin)


def cpu_seconds(process: psutil.Process) -> float:
    """The CPU time that the process took until now."""
    times = process.cpu_times()
    return float(times.user + times.system)


async def compare(name: str, port: int, process: psutil.Process, count: int) -> None:
    """Print how a question compares with an echo."""
    one = [await Connection().open(port)]
    for path in ("/echo", "/agent/chat"):
        await ask(one, path, 40)
    alone: dict[str, list[float]] = {"/echo": [], "/agent/chat": []}
    for _ in range(10):  # in turns: other programs move single values
        for path, seconds in alone.items():
            seconds += (await ask(one, path, count // 10))[0]
    connections = [await Connection().open(port) for _ in range(CONNECTIONS)]
    _, echoes = await ask(connections, "/echo", count)
    busy = cpu_seconds(process)
    _, chats = await ask(connections, "/agent/chat", count)
    busy = cpu_seconds(process) - busy
    (e50, e95), (c50, c95) = [(q[49], q[94]) for q in (quantiles(each, n=100) for each in alone.values())]
    rows = {
        "echo": f"{1000 * e50:.2f} ms, p95 {1000 * e95:.2f} ms",
        "question": f"{1000 * c50:.2f} ms, p95 {1000 * c95:.2f} ms",
        "overhead": f"{1000 * (c50 - e50):.2f} ms, p95 {1000 * (c95 - e95):.2f} ms",
        f"{CONNECTIONS} at once": f"{echoes:.0f} echoes/s, {chats:.0f} questions/s of {1000 * busy / count:.2f} ms CPU",
    }
    print(f"  {name:7} " + "; ".join(f"{what} {shown}" for what, shown in rows.items()))


async def soak(name: str, port: int, process: psutil.Process, count: int) -> bool:
    """Print how the server's memory grows; whether the goal is met."""
    connections = [await Connection().open(port) for _ in range(CONNECTIONS)]
    sizes = []
    for _ in range(10):
        await ask(connections, "/agent/chat", count // 10)
        sizes.append(process.memory_info().rss / 2**20)
    growth = sizes[-1] - sizes[0]
    met = growth < MOST_GROWTH_MB
    shown = ", ".join(f"{size:.1f}" for size in sizes)
    print(
        f"  {name:7} {count} requests, MB after each tenth: {shown}; growth {growth:.1f}: {'met' if met else 'MISSED'}"
    )
    return met


def measure(names: list[str], requests: int, soaked: int) -> bool:
    """Measure each store; whether the goals are met."""
    met = True
    for name in names:
        if name == "redis" and not shutil.which("redis-server"):
            print("  redis   NOT MEASURED: there is no redis-server")
            continue
        with tempfile.TemporaryDirectory() as folder, redis_server() if name == "redis" else nullcontext("") as redis:
            place = {"memory": "memory:", "sqlite": f"{folder}/conversations.sqlite"}.get(name, redis)
            with served(place) as (port, process):
                asyncio.run(compare(name, port, process, requests))
                if soaked and name != "memory":  # which keeps what it is asked
                    met = asyncio.run(soak(name, port, process, soaked)) and met
    return met


def main() -> None:
    """Measure and print; exit with 1 if the goal is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--requests", type=int, default=500)
    parser.add_argument("--soak", type=int, default=20_000)
    parser.add_argument("--stores", default="memory,sqlite,redis")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.serve)
    elif not measure(arguments.stores.split(","), arguments.requests, arguments.soak):
        sys.exit(1)


if __name__ == "__main__":
    main()
