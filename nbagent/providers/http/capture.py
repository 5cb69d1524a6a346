"""Records a transport's requests and responses for collectors (see `core.http_exchange`)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import suppress
from time import perf_counter, time
from typing import Any

from nbagent.core.http_exchange import Collector, Exchange
from nbagent.errors import ProviderError
from nbagent.providers.http.address import Target
from nbagent.providers.http.errors import provider_error, request_id
from nbagent.text import without_keys


class RecordedResponse:
    """Wraps a response, and keeps the part of its body that was read.

    It is created before the request is sent. The collector receives the exchange when the response is closed, or when
    the request has failed. It does not wrap the client's transport, because a user's own client may hide its transport.
    """

    def __init__(self, collector: Collector, target: Target, body: Any) -> None:
        self._collector, self._target, self._body = collector, target, body
        self._request: Any = None
        self._response: Any = None
        self._parts: list[bytes] = []
        self._started, self._clock = time(), perf_counter()
        self._duration = 0.0
        self._ttfb: float | None = None
        self._error: BaseException | None = None
        self._complete = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._response, name)

    async def aiter_bytes(self) -> AsyncGenerator[bytes]:
        """The decompressed body."""
        try:
            async for chunk in self._response.aiter_bytes():
                self._duration = perf_counter() - self._clock
                self._parts.append(chunk)
                yield chunk
            self._complete = True
        except Exception as exc:
            self._failed(exc, streaming=True)
            raise

    @property
    def stream(self) -> AsyncGenerator[bytes]:
        """The decompressed body, since the compressed bytes are not kept."""
        return self.aiter_bytes()

    async def aclose(self) -> None:
        """Close the response and notify the collector."""
        try:
            await self._response.aclose()
        finally:
            self._collector(self._exchange())

    def answered(self, response: Any) -> RecordedResponse:
        """Record that the response's head has arrived. Returns this object, to be read instead of the response."""
        self._request, self._response = response.request, response
        self._ttfb = self._duration = perf_counter() - self._clock
        return self

    def unanswered(self, exc: BaseException) -> None:
        """Record that there is no response: the connection failed, or the request was cancelled."""
        with suppress(AttributeError, RuntimeError):  # an error without a request
            self._request = exc.request  # type: ignore[attr-defined]  # only httpx2's errors have one
        self._failed(exc, streaming=False)
        self._collector(self._exchange())

    def _failed(self, exc: BaseException, streaming: bool) -> None:
        self._duration = perf_counter() - self._clock
        self._error = (isinstance(exc, Exception) and provider_error(exc, streaming)) or exc

    def _exchange(self) -> Exchange:
        target, response = self._target, self._response
        method, url = "GET" if self._body is None else "POST", target.base_url + target.path
        headers, sent = target.headers, self._body if isinstance(self._body, bytes) else b""
        if (request := self._request) is not None:
            method, url, headers = request.method, str(request.url), request.headers
            with suppress(AttributeError, RuntimeError):  # a streamed body is not in memory
                sent = request.content  # Azure, Bedrock and Vertex clients change the body
        redactor = target.redactor(url, headers)
        answer: dict[str, Any] = {}
        if response is not None:
            received, name = b"".join(self._parts), request_id(response.headers)
            answer = {
                "status": response.status_code,
                "http_version": getattr(response, "http_version", None),
                "response_headers": redactor.headers(response.headers),
                "response_body": redactor.text(received.decode("utf-8", "backslashreplace")),
                "response_bytes": len(received),
                "request_id": redactor.text(name) if name else None,
            }
        if self._error is not None:
            words = self._error.message if isinstance(self._error, ProviderError) else str(self._error)
            answer |= {"error_type": type(self._error).__name__, "error_message": redactor.text(without_keys(words))}
        return Exchange(
            method=method,
            url=redactor.url(url),
            request_headers=redactor.headers(headers),
            request_body=redactor.text(sent.decode("utf-8", "backslashreplace")),
            request_bytes=len(sent),
            started=self._started,
            duration_s=self._duration,
            ttfb_s=self._ttfb,
            complete=self._complete,
            secrets=sorted(redactor.used),
            **answer,
        )
