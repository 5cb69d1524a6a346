"""Runs a server: in one or more processes for `nbagent serve`, or in a thread for a cell.

When a server stops, it accepts no more requests, and runs have a grace period to finish. Then, the remaining runs are
ended cleanly, and their clients are notified.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import secrets
import socket
import tempfile
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import Context
from dataclasses import replace
from functools import partial
from typing import Any

import uvicorn
from fastapi import FastAPI
from prometheus_client.multiprocess import mark_process_dead
from starlette.types import Message, Receive, Scope, Send
from uvicorn.supervisors import Multiprocess

from nbagent.checks import check_choice, check_number
from nbagent.core.limits import Limits
from nbagent.errors import ConfigurationError
from nbagent.loading import load_agents
from nbagent.server.agent_host import AgentHost
from nbagent.server.app import create_app
from nbagent.server.conversations.opening import default_store, open_store
from nbagent.server.conversations.store import ConversationStore
from nbagent.server.logs import log_config
from nbagent.server.metrics import PROCESSES_VARIABLE
from nbagent.server.settings import LOOPBACK_HOSTS, ServerSettings
from nbagent.thread_server import ThreadServer, config, listening

#: Seconds after the grace period for runs to save their conversations and notify their clients.
_SAVES_WITHIN_S = 5
#: Seconds in which a process must start, even on a busy machine. Then it is killed and replaced.
_STARTS_WITHIN_S = 60
TOKEN_VARIABLE = "NBAGENT_SERVE_TOKEN"  # noqa: S105  its name
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def serve(arguments: argparse.Namespace, announce: Callable[[str], None]) -> None:
    """Run `nbagent serve` until Ctrl-C or SIGTERM. `announce` shows messages to a person.

    If no token is set, a new one is created and announced. Raises ConfigurationError for invalid arguments.
    """
    check_number("--workers", arguments.workers, whole=True, minimum=1)
    check_number("--keep-days", arguments.keep_days, above=0, optional=True)
    check_choice("--log-level", arguments.log_level, ("debug", "info", "warning", "error"))
    check_number("--max-connections", arguments.max_connections, whole=True, minimum=1)
    named = (token.strip() for token in os.environ.get(TOKEN_VARIABLE, "").split(","))
    settings, messages = with_token(
        ServerSettings(
            tokens=[token for token in named if token],
            token_file=arguments.token_file,
            hosts=arguments.allow_host or (LOOPBACK_HOSTS if arguments.host in _LOOPBACK else ["*"]),
            origins=arguments.origin,
            models=arguments.model,
            limits=Limits(max_cost=arguments.max_cost),
            max_cost_per_conversation=arguments.max_cost_per_conversation,
            max_cost_per_token=arguments.max_cost_per_token,
            max_body_bytes=arguments.max_body_bytes,
            body_seconds=arguments.body_seconds,
            requests_per_minute=arguments.requests_per_minute or None,
            max_concurrent=arguments.max_concurrent or None,
            approval_seconds=arguments.approval_seconds,
            grace_seconds=arguments.grace,
            access_log=arguments.access_log,
        )
    )
    host, workers, store = arguments.host, arguments.workers, arguments.store or default_store()
    if workers > 1 and store == "memory:":
        raise ConfigurationError(
            "--workers: several processes can't share conversations in memory. Choose another --store."
        )
    ttl_s = None if arguments.keep_days is None else arguments.keep_days * 86_400
    make = partial(_make_app, arguments.agent, settings, store, ttl_s)
    app = make()  # reports errors here, even if other processes will serve
    for agent in app.host.agents.values():
        agent.provider.check()
    asyncio.run(_check(app.host.store))
    sock = listening(host, arguments.port)
    messages.insert(0, f"nbagent serves at http://{host if ':' not in host else f'[{host}]'}:{sock.getsockname()[1]}")
    options: dict[str, Any] = {
        "log_config": log_config(arguments.log_level, arguments.log_json),
        "limit_concurrency": arguments.max_connections,
    }
    if workers == 1:
        announce("\n".join(messages))
        uvicorn.Server(_config(lambda: app, settings, **options)).run([sock])
        return
    with tempfile.TemporaryDirectory(prefix="nbagent-metrics-") as folder:
        os.environ.setdefault(PROCESSES_VARIABLE, folder)
        announce("\n".join(messages))
        options |= {"workers": workers, "timeout_worker_healthcheck": _STARTS_WITHIN_S}
        _Workers(_config(make, settings, **options), [sock]).run()


class _Workers(Multiprocess):
    """The processes of the server. Runs of a dead process no longer count as running."""

    def keep_subprocess_alive(self) -> None:
        """Replace dead processes."""
        before = {process.pid for process in self.processes}
        super().keep_subprocess_alive()
        for pid in before - {process.pid for process in self.processes}:
            mark_process_dead(pid)  # type: ignore[no-untyped-call]  # the library gives it no types


async def _check(store: ConversationStore) -> None:
    """Raise if the store can't be opened."""
    await store.open()
    await store.aclose()


def with_token(settings: ServerSettings) -> tuple[ServerSettings, list[str]]:
    """Return the settings, with a new token if they have none, and messages for the user. A message shows the new
    token, since nothing else does.
    """
    if settings.tokens or settings.token_file:
        return settings, []
    token = secrets.token_urlsafe(32)
    return replace(settings, tokens=[token]), [f"token: {token}"]


def _make_app(targets: list[str], settings: ServerSettings, store: str, ttl_s: float | None) -> GracefulApp:
    app = create_app(load_agents(targets), settings, open_store(store, ttl_s=ttl_s))
    app.state.host.owns_agent = True
    return GracefulApp(app)


def _config(make: Callable[[], GracefulApp], settings: ServerSettings, **options: Any) -> uvicorn.Config:
    return config(make, settings.grace_seconds, factory=True, **options)


class Serving(ThreadServer):
    """Serves an application from `create_app` in a thread.

    >>> serving = Serving(create_app(agent, settings)).start()              # doctest: +SKIP
    >>> serving.url                                                         # doctest: +SKIP
    'http://127.0.0.1:43817'
    """

    def __init__(self, app: FastAPI, sock: socket.socket | None = None, context: Context | None = None) -> None:
        self.host: AgentHost = app.state.host
        super().__init__(_config(lambda: GracefulApp(app), self.host.settings), sock or listening(), context)

    def cancel_runs(self) -> int:
        """Stop the runs in progress, and return their number."""
        stopped: Future[int] = Future()
        self.up.result().call_soon_threadsafe(lambda: stopped.set_result(self.host.stop_runs()))
        return stopped.result()


class GracefulApp:
    """ASGI wrapper that ends runs cleanly and notifies clients when uvicorn cancels requests after the grace period."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app
        self.host: AgentHost = app.state.host
        self._answering: set[asyncio.Task[None]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request."""
        if scope["type"] == "lifespan":
            await self._app(scope, partial(self._receive_lifespan, receive), send)
            return
        answering = asyncio.create_task(self._app(scope, receive, send))
        self._answering.add(answering)
        answering.add_done_callback(self._answering.discard)
        try:
            await asyncio.shield(answering)
        except asyncio.CancelledError:
            self.host.end_runs()
            await answering

    async def _receive_lifespan(self, receive: Receive) -> Message:
        message = await receive()
        if message["type"] == "lifespan.shutdown" and self._answering:
            await asyncio.wait(self._answering, timeout=_SAVES_WITHIN_S)
        return message
