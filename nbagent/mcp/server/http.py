"""`HTTPServing`: a `ToolServer` on a loopback port, behind a token, by streamable HTTP.

Besides the token, which no web page knows, the Host and Origin of each request must be this machine's, so that no
page can come in under another name (DNS rebinding).
"""

from __future__ import annotations

import asyncio
import atexit
import json
import secrets
import socket
import threading
from concurrent.futures import Future
from contextlib import suppress
from contextvars import Context

import uvicorn
from mcp.server.auth.middleware.bearer_auth import BearerAuthBackend, RequireAuthMiddleware
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from pydantic import SecretStr
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.routing import Route

from nbagent.errors import ConfigurationError
from nbagent.mcp.server.tool_server import ToolServer

HOST, PATH = "127.0.0.1", "/mcp"
#: Seconds that connections have to end when the server stops.
STOPS_WITHIN_S = 2
#: Of these, seconds in which the clients whose calls were stopped are told.
SAYS_SO_WITHIN_S = 0.1
_LOCAL = ["127.0.0.1", "localhost"]


class HTTPServing:
    """Serves from `start()` to `stop()`, or until the process ends, on an event loop of its own in a thread.

    What the libraries below leave on that loop ends with it. `port` 0 takes a free one. Requests run in a copy of
    `context`. Raises ConfigurationError if the port can't be used.

    >>> serving = HTTPServing(ToolServer(agent)).start()                    # doctest: +SKIP
    >>> print(serving.client_configuration())                               # doctest: +SKIP
    """

    def __init__(self, tools: ToolServer, *, port: int = 0, context: Context | None = None) -> None:
        self.tools = tools
        self._token = SecretStr(secrets.token_urlsafe(32))
        self._socket = _listening(port)
        self.port: int = self._socket.getsockname()[1]
        self._context = context or Context()
        self._loop: Future[asyncio.AbstractEventLoop] = Future()
        self._thread = threading.Thread(target=self._run, name="nbagent-mcp", daemon=True)
        #: Done when it no longer serves.
        self.over: Future[None] = Future()

    @property
    def url(self) -> str:
        """Where clients find it."""
        return f"http://{HOST}:{self.port}{PATH}"

    def client_configuration(self, name: str = "notebook") -> str:
        """What a client's configuration needs, as one line of JSON. It contains the token."""
        headers = {"Authorization": f"Bearer {self._token.get_secret_value()}"}
        return json.dumps({"mcpServers": {name: {"type": "http", "url": self.url, "headers": headers}}})

    def start(self) -> HTTPServing:
        """Begin to serve. Requests are answered from now on."""
        self._thread.start()
        self._loop.result()
        atexit.register(self.stop)
        return self

    def stop(self) -> None:
        """End running calls, close the connections and the port, and wait until that is done. May be called twice."""
        atexit.unregister(self.stop)
        with suppress(RuntimeError):  # its loop is closed
            self._loop.result().call_soon_threadsafe(self._stop.set)
        self._thread.join(3 * STOPS_WITHIN_S)

    def tell_changes(self) -> None:
        """Tell clients if the list of tools has changed. Returns at once."""
        loop = self._loop.result()
        loop.call_soon_threadsafe(lambda: loop.create_task(self.tools.tell_changes(), context=self._context.copy()))

    def cancel_calls(self) -> int:
        """Stop the calls that are running; their clients are told. Returns their number."""
        return asyncio.run_coroutine_threadsafe(self.tools.cancel_calls(), self._loop.result()).result()

    def _run(self) -> None:
        try:
            self._context.run(asyncio.run, self._serve())
        finally:
            self.over.set_result(None)

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        self._loop.set_result(asyncio.get_running_loop())
        security = TransportSecuritySettings(
            allowed_hosts=[f"{host}:{self.port}" for host in _LOCAL],
            allowed_origins=[f"http://{host}:{self.port}" for host in _LOCAL],
        )
        sessions = StreamableHTTPSessionManager(self.tools.server, security_settings=security)
        route = Route(PATH, RequireAuthMiddleware(StreamableHTTPASGIApp(sessions), []))
        guard = Middleware(AuthenticationMiddleware, backend=BearerAuthBackend(_OneToken(self._token)))
        # log_config: logging is the user's; lifespan: `sessions` must end before the connections can
        config = uvicorn.Config(
            Starlette(routes=[route], middleware=[guard]),
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            timeout_graceful_shutdown=STOPS_WITHIN_S,
        )
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve([self._socket]))
        try:
            async with sessions.run():
                await self._stop.wait()
                await self.tools.cancel_calls()
                self.tools.listening.close()
                await asyncio.sleep(SAYS_SO_WITHIN_S)
        finally:
            server.should_exit = True
            await serving


class _OneToken:
    """Knows one token."""

    def __init__(self, token: SecretStr) -> None:
        self._token = token

    async def verify_token(self, token: str) -> AccessToken | None:
        """Whose token it is; None for a wrong one."""
        if not secrets.compare_digest(token.encode(), self._token.get_secret_value().encode()):
            return None
        return AccessToken(token=token, client_id="local", scopes=[])


def _listening(port: int) -> socket.socket:
    """A socket that listens on this loopback port. Raises ConfigurationError."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((HOST, port))
        sock.listen()
    except (OSError, OverflowError) as error:
        sock.close()
        fix = "Choose another one, or none for a free one."
        raise ConfigurationError(f"port: {port} can't be used ({error}). {fix}") from error
    return sock
