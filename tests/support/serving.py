"""A real server on loopback, for tests: `with served(agent) as server: server.client().post(…)`."""

import asyncio
import json
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import sleep
from typing import Any
from urllib.parse import urlsplit

import httpx
import uvicorn

from nbagent import Agent
from nbagent.server.agent_host import AgentHost
from nbagent.server.app import create_app
from nbagent.server.settings import ServerSettings
from nbagent.thread_server import config

TOKEN, OTHER_TOKEN = "a-token-of-the-tests", "another-token-of-the-tests"


@dataclass
class Served:
    url: str
    app: Any
    loop: asyncio.AbstractEventLoop
    clients: list[httpx.Client] = field(default_factory=list)

    @property
    def host(self) -> AgentHost:
        return self.app.state.host

    def client(self, token: str | None = TOKEN, **options: Any) -> httpx.Client:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        client = httpx.Client(base_url=self.url, headers=headers, timeout=60, **options)
        self.clients.append(client)
        return client

    def run(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(60)


@contextmanager
def served(agent: Agent, store: Any = None, **settings: Any) -> Iterator[Served]:
    options = {"tokens": [TOKEN, OTHER_TOKEN], **settings}
    app = create_app(agent, ServerSettings(**options), store)
    server = uvicorn.Server(config(app, 10, port=0))
    started: Future[asyncio.AbstractEventLoop] = Future()

    async def serve() -> None:
        serving = asyncio.create_task(server.serve())
        while not server.started and not serving.done():
            await asyncio.sleep(0.005)
        started.set_result(asyncio.get_running_loop())
        await serving

    thread = threading.Thread(target=asyncio.run, args=(serve(),), name="served")
    thread.start()
    loop = started.result(60)
    port = server.servers[0].sockets[0].getsockname()[1]
    running = Served(f"http://127.0.0.1:{port}", app, loop)
    try:
        yield running
    finally:
        for client in running.clients:
            client.close()
        server.should_exit = True
        thread.join(60)


@dataclass
class Process:
    """`nbagent serve` in a process of its own."""

    url: str
    process: subprocess.Popen[str]
    #: What it wrote to standard error.
    log: Path
    clients: ExitStack

    def client(self, token: str = TOKEN) -> httpx.Client:
        headers = {"Authorization": f"Bearer {token}"}
        return self.clients.enter_context(httpx.Client(base_url=self.url, headers=headers, timeout=60))

    def logged(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Wait for a line of JSON in the log."""
        while True:
            for line in self.log.read_text().splitlines():
                if line.endswith("}") and wanted(entry := json.loads(line)):
                    return entry
            sleep(0.01)


@contextmanager
def serving_process(folder: Path, *arguments: str, **environment: str) -> Iterator[Process]:
    """Serve what the arguments name, with a store in the folder."""
    command = [sys.executable, "-m", "nbagent.cli", "serve", "--port", "0"]
    command += ["--store", f"sqlite:///{folder / 'kept.sqlite'}", *arguments]
    with (folder / "log").open("w") as log, ExitStack() as clients:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, text=True, env={**os.environ, **environment}, cwd=folder
        )
        try:
            assert process.stdout is not None
            url = re.search(r"http://\S+", process.stdout.readline())
            assert url is not None, (folder / "log").read_text()
            yield Process(url[0], process, folder / "log", clients)
        finally:
            process.terminate()  # workers end with it
            process.communicate()


def leave(url: str, path: str, data: Any, asked: threading.Event, **headers: str) -> None:
    """POST by a socket of our own, and close it once `asked` is set."""
    address = urlsplit(url)
    body = json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode()  # as httpx sends it
    sent = {"Host": address.netloc, "Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json", **headers}
    lines = [f"POST {path} HTTP/1.1", *(f"{name}: {value}" for name, value in sent.items())]
    head = "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""])
    with socket.create_connection((address.hostname, address.port)) as connection:
        connection.sendall(head.encode() + body)
        assert asked.wait(60)


def events_of(response: httpx.Response) -> list[dict[str, Any]]:
    lines = re.split(r"\r\n|\n|\r", response.text)
    return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]
