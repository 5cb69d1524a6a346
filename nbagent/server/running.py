"""Runs a server: for `nbagent serve`, in one process or several, and in a thread, for a cell.

When it is to stop, it takes no more requests, and runs have the grace time to end; those that go on are then ended
validly, and their clients are told.
"""

from __future__ import annotations

import argparse
import asyncio
import atexit
import os
import secrets
import socket
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import Context
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import platformdirs
import uvicorn
from fastapi import FastAPI
from uvicorn.supervisors import Multiprocess

from nbagent.agent.agent import Agent
from nbagent.checks import check_number
from nbagent.core.limits import Limits
from nbagent.errors import ConfigurationError
from nbagent.loading import load_agent
from nbagent.server.agent_host import AgentHost
from nbagent.server.app import create_app
from nbagent.server.conversations.opening import open_store
from nbagent.server.conversations.store import ConversationStore
from nbagent.server.metrics import PROCESSES_VARIABLE
from nbagent.server.settings import LOOPBACK_HOSTS, ServerSettings

#: Seconds that a run has to save its conversation when the grace is over, and its client to read that.
_SAVES_WITHIN_S = 5
#: Seconds that a process has to import what it needs, on a busy machine too; then it is killed, and another one begins.
_STARTS_WITHIN_S = 60
TOKEN_VARIABLE = "NBAGENT_SERVE_TOKEN"  # noqa: S105  its name
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def serve(arguments: argparse.Namespace, announce: Callable[[str], None]) -> None:
    """Do what `nbagent serve` was told, until Ctrl-C or SIGTERM. `announce` gets what a person should know.

    Without a token one is made up, and announced. Raises ConfigurationError.
    """
    check_number("--workers", arguments.workers, whole=True, minimum=1)
    check_number("--keep-days", arguments.keep_days, above=0, optional=True)
    named = (each.strip() for each in os.environ.get(TOKEN_VARIABLE, "").split(","))
    settings, told = with_token(
        ServerSettings(
            tokens=[each for each in named if each],
            hosts=arguments.allow_host or hosts_for(arguments.host),
            origins=arguments.origin,
            models=arguments.model,
            limits=Limits(max_cost=arguments.max_cost),
            max_cost_per_conversation=arguments.max_cost_per_conversation,
            max_cost_per_token=arguments.max_cost_per_token,
            requests_per_minute=arguments.requests_per_minute,
            grace_seconds=arguments.grace,
        )
    )
    host, workers, store = arguments.host, arguments.workers, arguments.store or default_store()
    if workers > 1 and store == "memory:":
        raise ConfigurationError("--workers: processes can't share conversations in memory. Choose another --store.")
    ttl_s = None if arguments.keep_days is None else arguments.keep_days * 86_400
    make = partial(_make_app, arguments.agent, settings, store, ttl_s)
    app = make()  # what is wrong is told here, also if other processes will serve
    app.state.host.agent.provider.check()
    asyncio.run(_check(app.state.host.store))
    sock = listening(host, arguments.port)
    told.insert(0, f"nbagent serves at http://{host if ':' not in host else f'[{host}]'}:{sock.getsockname()[1]}")
    if workers == 1:
        announce("\n".join(told))
        _Server(_config(app, settings), app).run([sock])
        return
    with tempfile.TemporaryDirectory(prefix="nbagent-metrics-") as folder:
        os.environ.setdefault(PROCESSES_VARIABLE, folder)
        announce("\n".join(told))
        config = _config(make, settings, factory=True, workers=workers, timeout_worker_healthcheck=_STARTS_WITHIN_S)
        Multiprocess(config, [sock]).run()


async def _check(store: ConversationStore) -> None:
    """Raise the error of a store that can't be opened."""
    await store.open()
    await store.aclose()


def default_store() -> str:
    """The address of the user's own file of conversations, in the folder for data of applications."""
    folder = platformdirs.user_data_path("nbagent")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(
            f"Conversations can't be kept in {folder}: {error}. Name a file with --store, or memory: for none."
        ) from error
    return f"sqlite:///{folder / 'conversations.sqlite'}"


def with_token(settings: ServerSettings) -> tuple[ServerSettings, list[str]]:
    """The settings with a token, and what to tell about it: it is told once, if it was made up here."""
    if settings.tokens:
        return settings, []
    token = secrets.token_urlsafe(32)
    return replace(settings, tokens=[token]), [f"token: {token}"]


def hosts_for(host: str) -> tuple[str, ...]:
    """The names under which clients may reach a server at this address, unless it is told others."""
    return LOOPBACK_HOSTS if host in _LOOPBACK else ("*",)


def _make_app(target: str | None, settings: ServerSettings, store: str, ttl_s: float | None) -> FastAPI:
    return create_app(partial(load_agent, target), settings, open_store(store, ttl_s=ttl_s))


def _config(app: FastAPI | Callable[[], FastAPI], settings: ServerSettings, **options: Any) -> uvicorn.Config:
    # log_config: logging is the user's; access_log: addresses name conversations
    return uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        ws="none",
        server_header=False,
        timeout_graceful_shutdown=int(settings.grace_seconds) + _SAVES_WITHIN_S,
        **options,
    )


class _Server(uvicorn.Server):
    """Ends the runs when the grace is over, so that their clients are told before the connections end."""

    def __init__(self, config: uvicorn.Config, app: FastAPI) -> None:
        super().__init__(config)
        self._app = app
        #: Has the server's event loop once it serves.
        self.up: Future[asyncio.AbstractEventLoop] = Future()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to serve."""
        await super().startup(sockets)
        self.up.set_result(asyncio.get_running_loop())

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop."""
        host = self._app.state.host
        ending = asyncio.get_running_loop().call_later(host.settings.grace_seconds, host.end_runs)
        try:
            await super().shutdown(sockets)
        finally:
            ending.cancel()


@dataclass
class Serving:
    """A server in a thread of its own, from `start()` to `stop()`, or until the process ends. `port` 0 is a free one.

    >>> serving = Serving(agent, ServerSettings(tokens=[token])).start()    # doctest: +SKIP
    >>> serving.url                                                         # doctest: +SKIP
    'http://127.0.0.1:43817'
    """

    agent: Agent
    settings: ServerSettings
    store: str = "memory:"
    port: int = 0
    context: Context = field(default_factory=Context, repr=False)
    url: str = field(init=False, default="")
    over: Future[None] = field(init=False, default_factory=Future, repr=False)

    def start(self) -> Serving:
        """Begin to serve. Requests are answered from now on."""
        sock = listening("127.0.0.1", self.port)
        self.port = sock.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        app = self._app = create_app(self.agent, self.settings, open_store(self.store))
        self._server = _Server(_config(app, self.settings), app)
        self._thread = threading.Thread(target=self._run, args=(sock,), name="nbagent-serve", daemon=True)
        self._thread.start()
        self._loop = self._server.up.result()
        atexit.register(self.stop)
        return self

    def serve_agent(self, agent: Agent) -> None:
        """Serve this agent from now on."""
        self._app.state.host.agent = agent

    def cancel_runs(self) -> int:
        """Stop the runs that go on. Returns their number."""
        host: AgentHost = self._app.state.host
        stopped: Future[int] = Future()
        self._loop.call_soon_threadsafe(lambda: stopped.set_result(host.stop_runs()))
        return stopped.result()

    def stop(self) -> None:
        """End the runs and the server, and wait until that is done. May be called twice."""
        atexit.unregister(self.stop)
        self._server.should_exit = True
        self._thread.join(self.settings.grace_seconds + 2 * _SAVES_WITHIN_S)

    def _run(self, sock: socket.socket) -> None:
        try:
            self.context.run(self._server.run, [sock])
        finally:
            if not self._server.up.done():
                self._server.up.set_exception(ConfigurationError("The server did not start. Its log says why."))
            self.over.set_result(None)


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens there. Raises ConfigurationError."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0]
        sock = socket.socket(family, kind, protocol)
    except OSError as error:
        raise _unusable(host, port, error) from None
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((address[0], port, *address[2:]))
        sock.listen()
    except (OSError, OverflowError) as error:
        sock.close()
        raise _unusable(host, port, error) from None
    sock.set_inheritable(True)
    return sock


def _unusable(host: str, port: int, error: Exception) -> ConfigurationError:
    return ConfigurationError(
        f"{host}:{port} can't be used ({error}). Choose another --host or --port; 0 is a free port."
    )
