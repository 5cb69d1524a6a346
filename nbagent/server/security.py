"""Access control: bearer tokens, and the Host and Origin of each request.

A request needs a token, which no web page knows, and must use one of this server's host names. If a browser sends an
Origin, the Origin must be this server or an allowed page. This prevents DNS rebinding.

Three paths need no token and accept any host name: `/healthz` and `/readyz`, since load balancers use IP addresses, and
`/`, the page that asks for the token and contains no data. For any other page, a browser prompts for a name and a
password (HTTP Basic authentication). The password is the token. The browser then sends it with each request, but only
to this server.
"""

from __future__ import annotations

import base64
import logging

from starlette.datastructures import Headers
from starlette.types import Scope

from nbagent.server.problems import RefusedError
from nbagent.server.settings import ServerSettings
from nbagent.server.tokens import Holder, Tokens

log = logging.getLogger("nbagent")

OPEN_PATHS = ("/", "/healthz", "/readyz")


class Security:
    """Admits only requests with a valid token, an allowed host name, and either no Origin or an allowed one."""

    def __init__(self, settings: ServerSettings) -> None:
        self._tokens = Tokens(settings)
        self._hosts = {host.lower() for host in settings.hosts}
        self._origins = set(settings.origins)

    def holder(self, scope: Scope) -> Holder:
        """Return the token's holder. Raises `RefusedError` if the request is not admitted."""
        headers = Headers(scope=scope)
        try:
            self._check_names(headers)
            return self._holder(headers)
        except RefusedError as error:
            client = (scope.get("client") or ["?"])[0]
            log.warning("refused a request from %s: %s", client, error.problem.code)
            raise

    def _check_names(self, headers: Headers) -> None:
        host = headers.get("host", "").lower()
        if "*" not in self._hosts and _without_port(host) not in self._hosts:
            raise RefusedError(421, "wrong_host", "This server does not respond to that host name.")
        origin = headers.get("origin")
        if origin not in {None, *self._origins, f"http://{host}", f"https://{host}"}:
            raise RefusedError(403, "wrong_origin", "Pages from that origin may not use this server.")

    def _holder(self, headers: Headers) -> Holder:
        holder = self._tokens.holder(_given_token(headers.get("authorization", "")))
        if holder is None:
            challenge = 'Bearer realm="nbagent"'
            if "text/html" in headers.get("accept", ""):  # a browser that opens a page, not a script
                challenge += ', Basic realm="nbagent: any name, and the token as the password", charset="UTF-8"'
            detail = "A token is required. Send the header Authorization: Bearer <token>."
            raise RefusedError(401, "unauthorized", detail, WWW_Authenticate=challenge)
        return holder


def _given_token(authorization: str) -> str:
    scheme, _, value = authorization.partition(" ")
    value = value.strip()
    if scheme.lower() == "bearer":
        return value
    if scheme.lower() == "basic":
        try:
            return base64.b64decode(value, validate=True).partition(b":")[2].decode()
        except ValueError:  # not Base64, or not text
            pass
    return ""


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdigit() else host
