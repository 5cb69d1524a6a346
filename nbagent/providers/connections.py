"""The connections of one httpx client: each request has one to itself, which is kept for the next to that server."""

from __future__ import annotations

import ssl
from types import ModuleType
from typing import Any

from nbagent.providers.http11 import Connection

Origin = tuple[str, str, int | None]


class Connections:
    """A transport for clients of `http`, which is `httpx` or `httpx2`; `context` is what to trust.

    >>> client = httpx.AsyncClient(transport=Connections(httpx, httpx.create_ssl_context()))    # doctest: +SKIP
    """

    def __init__(self, http: ModuleType, context: ssl.SSLContext) -> None:
        self._http = http
        self._context = context
        self._made: dict[Origin, list[Connection]] = {}

    async def handle_async_request(self, request: Any) -> Any:
        """Send a request over an idle connection, or over a new one -> the response, still to be read."""
        url = request.url
        made = self._made.setdefault((url.scheme, url.host, url.port), [])
        connection = next((connection for connection in made if not connection.busy), None)
        if connection is None:
            connection = Connection(self._http, self._context)
            made.append(connection)
        return await connection.handle_async_request(request)

    async def aclose(self) -> None:
        """Close them all."""
        for made in self._made.values():
            for connection in made:
                await connection.aclose()
