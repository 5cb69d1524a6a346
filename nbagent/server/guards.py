"""Limits per token: requests per minute, parallel requests, and the size of a request."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from time import monotonic

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nbagent.server.failures import route_path
from nbagent.server.problems import RefusedError
from nbagent.server.security import OPEN_PATHS, Security
from nbagent.server.settings import ServerSettings

#: The headers in which OpenAI's clients expect limits.
RATE_HEADERS = ("x-ratelimit-limit-requests", "x-ratelimit-remaining-requests", "x-ratelimit-reset-requests")
#: The paths for decisions on waiting calls, and to stop runs.
_DECISIONS = ("/agent/approvals/", "/page/stop")


class Guards:
    """ASGI middleware that admits requests that have a token and stay within its limits, and reads their bodies.

    Raises `RefusedError` for other requests, except those to the open paths.
    """

    def __init__(self, app: ASGIApp, settings: ServerSettings) -> None:
        self._app = app
        self._settings = settings
        self._security = Security(settings)
        self._rates: dict[str, Rate] = {}
        #: Current requests by token. Those that start runs count separately, so decisions get through while runs wait.
        self._running: Counter[tuple[str, bool]] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request."""
        if scope["type"] != "http" or route_path(scope) in OPEN_PATHS:
            await self._app(scope, receive, send)
            return
        holder = scope["nbagent.holder"] = self._security.holder(scope)
        self._check_rate(holder.owner, scope["nbagent.headers"])
        counted = (holder.owner, scope["method"] == "POST" and not route_path(scope).startswith(_DECISIONS))
        most = self._settings.max_concurrent
        if most is not None and self._running[counted] >= most:
            detail = f"This token may have {most} requests at once. Wait for one to end, or ask the operator for more."
            raise RefusedError(429, "too_many_at_once", detail, Retry_After="1")
        self._running[counted] += 1
        try:
            body = await self._body(receive)
            await self._app(scope, _receive_again(body, receive), send)
        finally:
            self._running[counted] -= 1

    def _check_rate(self, owner: str, headers: list[tuple[bytes, bytes]]) -> None:
        """Count the request, and report the remaining ones in the response's headers, as OpenAI does."""
        per_minute = self._settings.requests_per_minute
        if per_minute is None:
            return
        rate = self._rates.setdefault(owner, Rate(per_minute))
        wait = rate.take()
        values = (per_minute, rate.left, f"{rate.seconds_to_full}s")
        headers += [(name.encode(), str(value).encode()) for name, value in zip(RATE_HEADERS, values, strict=True)]
        if wait:
            detail = (
                f"This token may send {per_minute} requests per minute. Wait {wait} s or ask the operator for more."
            )
            raise RefusedError(429, "too_many_requests", detail, Retry_After=str(wait))

    async def _body(self, receive: Receive) -> bytes:
        most, body = self._settings.max_body_bytes, bytearray()
        try:
            async with asyncio.timeout(self._settings.body_seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise ClientDisconnect
                    body += message.get("body", b"")
                    if len(body) > most:
                        detail = f"A body may have at most {most:,} bytes."
                        raise RefusedError(413, "body_too_large", detail, Connection="close")
                    if not message.get("more_body"):
                        return bytes(body)
        except TimeoutError:
            detail = f"The body did not arrive within {self._settings.body_seconds:g} seconds."
            raise RefusedError(408, "body_too_slow", detail, Connection="close") from None


class Rate:
    """A token bucket that holds one minute's requests and refills steadily.

    >>> rate = Rate(1)
    >>> rate.take(), 0 < rate.take() <= 60
    (0, True)
    """

    def __init__(self, per_minute: int) -> None:
        self._most, self._left, self._at = per_minute, float(per_minute), monotonic()

    @property
    def left(self) -> int:
        """How many requests were left after the last `take()`."""
        return int(self._left)

    @property
    def seconds_to_full(self) -> int:
        """How many seconds after the last `take()` the bucket is full again."""
        return math.ceil((self._most - self._left) * 60 / self._most)

    def take(self) -> int:
        """Take one request from the bucket. Return 0, or the seconds to wait if none is left."""
        now = monotonic()
        self._left = min(self._most, self._left + (now - self._at) * self._most / 60)
        self._at = now
        if self._left < 1:
            return math.ceil((1 - self._left) * 60 / self._most)
        self._left -= 1
        return 0


def _receive_again(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that repeats a body that was already read."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> Message:
        return messages.pop() if messages else await receive()

    return receive_again
