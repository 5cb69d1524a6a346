"""`HTTPServing`: serves a `ToolServer` on a loopback port, over streamable HTTP.

Each request needs a token, which no web page knows. To prevent DNS rebinding, the request's Host and Origin must name
this machine.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import socket
from contextlib import AsyncExitStack
from contextvars import Context

from mcp.server.auth.middleware.bearer_auth import BearerAuthBackend, RequireAuthMiddleware
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from pydantic import SecretStr
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.routing import Route

from nbagent.mcp.server.tool_server import ToolServer
from nbagent.thread_server import LOOPBACK, ThreadServer, config, listening

PATH = "/mcp"
#: Seconds for connections to end when the server stops.
STOP_S = 2
#: How many of these seconds are for notifying clients whose calls were stopped.
NOTIFY_S = 0.1


class HTTPServing(ThreadServer):
    """Serves a `ToolServer` on a loopback port. Raises ConfigurationError if the port can't be used.

    >>> serving = HTTPServing(ToolServer(agent)).start()                    # doctest: +SKIP
    >>> print(serving.client_configuration())                               # doctest: +SKIP
    """

    def __init__(self, tools: ToolServer, *, port: int = 0, context: Context | None = None) -> None:
        self.tools = tools
        self._token = SecretStr(secrets.token_urlsafe(32))
        self._running = AsyncExitStack()
        sock = listening(LOOPBACK, port)
        local = [f"{host}:{sock.getsockname()[1]}" for host in (LOOPBACK, "localhost")]
        security = TransportSecuritySettings(allowed_hosts=local, allowed_origins=[f"http://{host}" for host in local])
        self._sessions = StreamableHTTPSessionManager(tools.server, security_settings=security)
        route = Route(PATH, RequireAuthMiddleware(StreamableHTTPASGIApp(self._sessions), []))
        guard = Middleware(AuthenticationMiddleware, backend=BearerAuthBackend(_OneToken(self._token)))
        app = Starlette(routes=[route], middleware=[guard])
        super().__init__(config(app, STOP_S, lifespan="off"), sock, context)
        self.url += PATH

    def client_configuration(self, name: str = "notebook") -> str:
        """The configuration for a client, as one line of JSON. It contains the token."""
        headers = {"Authorization": f"Bearer {self._token.get_secret_value()}"}
        return json.dumps({"mcpServers": {name: {"type": "http", "url": self.url, "headers": headers}}})

    def notify_changes(self) -> None:
        """Notify clients if the list of tools has changed. Returns before the clients are notified."""
        loop = self.up.result()
        loop.call_soon_threadsafe(lambda: loop.create_task(self.tools.notify_changes(), context=self._context.copy()))

    def cancel_calls(self) -> int:
        """Stop the running calls and notify their clients. Returns their number."""
        return asyncio.run_coroutine_threadsafe(self.tools.cancel_calls(), self.up.result()).result()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start serving."""
        await self._running.enter_async_context(self._sessions.run())
        await super().startup(sockets)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop serving: end the sessions first, then the connections."""
        await self.tools.cancel_calls()
        self.tools.listening.close()
        await asyncio.sleep(NOTIFY_S)
        await self._running.aclose()
        await super().shutdown(sockets)


class _OneToken:
    """Verifies a single token."""

    def __init__(self, token: SecretStr) -> None:
        self._token = token

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return the token's owner, or None for a wrong token."""
        if not secrets.compare_digest(token.encode(), self._token.get_secret_value().encode()):
            return None
        return AccessToken(token=token, client_id="local", scopes=[])
