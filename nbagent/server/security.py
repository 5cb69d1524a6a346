"""Who may ask: bearer tokens, and the Host and Origin of each request.

Besides the token, which no web page knows, the Host of a request must be a name of this server, and its Origin, if a
browser sent one, the server itself or an allowed page. So no page can come in under another name (DNS rebinding).

Without a token, and under any name, only `/healthz` answers, since load balancers ask by address, and `/`, the page
that asks for the token and holds no data. A browser that opens another page asks its user for the token: it is the
password of HTTP Basic authentication, which the browser then sends with each request to this server, and to no other.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import secrets

from pydantic import SecretStr
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from nbagent.server.problems import RefusedError, problem_response, route_path
from nbagent.server.settings import ServerSettings

OPEN_PATHS = ("/", "/healthz")


def owner_of(token: str) -> str:
    """The digest of a token, safe to store and to log: conversations, budgets and approvals belong to it.

    >>> owner_of("a token of 16 characters or more")
    'b4db4e531616be334ea8f1f09c787155'
    """
    return hashlib.sha256(token.encode()).hexdigest()[:32]


class Security:
    """ASGI middleware that lets nobody in without a token, and tells the routes who asks."""

    def __init__(self, app: ASGIApp, settings: ServerSettings) -> None:
        self._app = app
        tokens = (token for token in settings.tokens if isinstance(token, SecretStr))  # the settings make them of all
        self._tokens = [token.get_secret_value().encode() for token in tokens]
        self._hosts = {host.lower() for host in settings.hosts}
        self._origins = set(settings.origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        try:
            if route_path(scope) not in OPEN_PATHS:
                self._check_names(headers)
                scope["nbagent.owner"] = self._owner(headers)
        except RefusedError as error:
            await problem_response(scope, error.problem)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _check_names(self, headers: Headers) -> None:
        host = headers.get("host", "").lower()
        if "*" not in self._hosts and _without_port(host) not in self._hosts:
            raise RefusedError(421, "wrong_host", "This server does not answer under that name.")
        origin = headers.get("origin")
        if origin not in {None, *self._origins, f"http://{host}", f"https://{host}"}:
            raise RefusedError(403, "wrong_origin", "Pages of that origin may not ask this server.")

    def _owner(self, headers: Headers) -> str:
        given = _given_token(headers.get("authorization", ""))
        known = [secrets.compare_digest(given, token) for token in self._tokens]  # all, so that time tells nothing
        if not any(known):
            challenge = 'Bearer realm="nbagent"'
            if "text/html" in headers.get("accept", ""):  # a browser that opens a page, not a program that fetches
                challenge += ', Basic realm="nbagent: any name, and the token as the password", charset="UTF-8"'
            detail = "This needs a token: send the header Authorization: Bearer <token>."
            raise RefusedError(401, "unauthorized", detail, WWW_Authenticate=challenge)
        return owner_of(given.decode())


def _given_token(authorization: str) -> bytes:
    scheme, _, value = authorization.partition(" ")
    value = value.strip()
    if scheme.lower() == "bearer":
        return value.encode()
    if scheme.lower() == "basic":
        try:
            return base64.b64decode(value, validate=True).partition(b":")[2]
        except (binascii.Error, ValueError):
            pass
    return b""


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdigit() else host
