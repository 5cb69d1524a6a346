"""Records each request for operators: an id, a span, metrics, and a line in the access log."""

from __future__ import annotations

import logging
import re
from contextlib import AbstractContextManager, nullcontext
from time import monotonic
from typing import Any
from uuid import uuid4

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nbagent.server.agent_host import AgentHost
from nbagent.server.failures import problem_response, route_path
from nbagent.server.logs import request_id
from nbagent.server.metrics import Metrics
from nbagent.server.problems import problem_of
from nbagent.server.security import OPEN_PATHS
from nbagent.server.tokens import Holder

access_log = logging.getLogger("nbagent.access")

#: The status of a request whose client disconnected before the response.
_GONE = 499
_ID = re.compile(r"[!-~]{1,128}")


class Observed:
    """ASGI middleware around guards and routes. It turns their errors into error responses, so the connection stays
    open.
    """

    def __init__(self, app: ASGIApp, host: AgentHost, metrics: Metrics) -> None:
        self._app, self._host, self._metrics = app, host, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request, and record the outcome."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers, began, status = Headers(scope=scope), monotonic(), _GONE
        given = headers.get("x-request-id", "")
        own_id = given if _ID.fullmatch(given) else uuid4().hex
        request_id.set(own_id)
        #: Headers of every response.
        added = scope["nbagent.headers"] = [(b"x-request-id", own_id.encode())]

        async def send_noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *added]
            await send(message)

        with self._span(scope, headers) as span:
            try:
                await self._app(scope, receive, send_noting)
            except ClientDisconnect:
                pass
            except Exception as error:
                if status != _GONE:  # the response has started
                    raise
                await problem_response(scope, problem_of(error))(scope, receive, send_noting)
            finally:
                seconds = monotonic() - began
                self._metrics.count_request(scope, status, seconds)
                if span is not None:
                    span.answered(getattr(scope.get("route"), "path", None), status)
                if self._host.settings.access_log:
                    _log(scope, status, seconds)

    def _span(self, scope: Scope, headers: Headers) -> AbstractContextManager[Any]:
        """The span of the request, if a `trace.export.otel.Telemetry` observes an agent's trace."""
        agents = () if route_path(scope) in OPEN_PATHS else self._host.agents.values()
        observers = (observer for agent in agents for observer in agent.trace.observers)
        telemetry: Any = next((observer for observer in observers if hasattr(observer, "server_span")), None)
        return telemetry.server_span(scope["method"], headers) if telemetry is not None else nullcontext()


def _log(scope: Scope, status: int, seconds: float) -> None:
    """Write the line. The query is omitted, since it may contain a secret."""
    holder: Holder | None = scope.get("nbagent.holder")
    fields = {
        "client": (scope.get("client") or ["-"])[0],
        "holder": holder.name if holder is not None else "-",
        "method": scope["method"],
        "path": scope.get("raw_path", b"").partition(b"?")[0].decode("ascii", "replace"),
        "status": status,
        "duration_ms": round(seconds * 1000),
    }
    access_log.info("%(client)s %(holder)s %(method)s %(path)s %(status)d %(duration_ms)d ms", fields, extra=fields)
