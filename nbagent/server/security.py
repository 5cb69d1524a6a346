"""Access control: bearer tokens, and the Host and Origin of each request.

In addition to the token, which no web page knows, a request's Host must be a name of this server, and its Origin, if
sent by a browser, the server itself or an allowed page. So no page can get in under another name (DNS rebinding).

Without a token, and under any name, only `/healthz` and `/readyz` answer, since load balancers use addresses, and `/`,
the page that asks for the token and contains no data. A browser that opens another page asks its user for the token: it
is the password of HTTP Basic authentication, which the browser then sends with each request to this server alone.
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
    """Admits only requests with a token."""

    def __init__(self, settings: ServerSettings) -> None:
        self._tokens = Tokens(settings)
        self._hosts = {host.lower() for host in settings.hosts}
        self._origins = set(settings.origins)

    def holder(self, scope: Scope) -> Holder:
        """The request's owner. Raises `RefusedError` if the request is not admitted."""
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
            raise RefusedError(421, "wrong_host", "This server does not answer under that name.")
        origin = headers.get("origin")
        if origin not in {None, *self._origins, f"http://{host}", f"https://{host}"}:
            raise RefusedError(403, "wrong_origin", "Pages of that origin may not ask this server.")

    def _holder(self, headers: Headers) -> Holder:
        holder = self._tokens.holder(_given_token(headers.get("authorization", "")))
        if holder is None:
            challenge = 'Bearer realm="nbagent"'
            if "text/html" in headers.get("accept", ""):  # a browser that opens a page, not a program that fetches
                challenge += ', Basic realm="nbagent: any name, and the token as the password", charset="UTF-8"'
            detail = "This needs a token: send the header Authorization: Bearer <token>."
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
