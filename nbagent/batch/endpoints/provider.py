"""`BatchedProvider`: the provider used for rows whose first answer comes from a batch."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from nbagent.core.current import current
from nbagent.core.events import Event
from nbagent.core.messages import LLMResponse
from nbagent.core.model_request import Functions, ModelRequest
from nbagent.errors import ProviderError
from nbagent.providers.base import WrapperProvider
from nbagent.providers.http_provider import HTTPProvider
from nbagent.providers.tool_names import renamed

log = logging.getLogger("nbagent")


class BatchedProvider(WrapperProvider):
    """Answers a row's first request from its batch, if possible, and sends all other requests live.

    `result_of` receives a row's key, and returns the body of the row's answer, or None.
    """

    inner: HTTPProvider

    def __init__(self, inner: HTTPProvider, result_of: Callable[[str], dict[str, Any] | None]) -> None:
        super().__init__(inner)
        self._result_of = result_of
        #: Rows whose batch answer was used.
        self._used: set[str] = set()
        #: The last resolved request.
        self.latest: ModelRequest | None = None

    def supports_function_calling(self) -> bool:
        """See `LLMProvider.supports_function_calling`."""
        return self.inner.supports_function_calling()

    def check(self) -> None:
        """See `LLMProvider.check`."""
        self.inner.check()

    def resolve(self, request: ModelRequest) -> ModelRequest:
        """See `LLMProvider.resolve`."""
        request = self.inner.resolve(request)
        if current.get().row_key not in self._used:
            request = replace(request, effective_options={**request.effective_options, "stream": False})
        self.latest = request
        return request

    async def stream(self, request: ModelRequest) -> AsyncIterator[Event | LLMResponse]:
        """Yield the answer from the batch or, without one, the live model's answer."""
        for item in self._batched(current.get().row_key, request.tools):
            yield item
            if isinstance(item, LLMResponse):
                return
        async with aclosing(self.inner.stream(request)) as items:
            async for item in items:
                yield item

    def _batched(self, key: str | None, tools: Functions | None) -> list[Event | LLMResponse]:
        """Return the items of a row's batch answer, or none."""
        if key is None or key in self._used:
            return []
        self._used.add(key)
        if (body := self._result_of(key)) is None:
            return []
        try:
            items = self.inner.codec.items(body, renamed(tools))
        except ProviderError:
            log.warning("a batch answer can't be read: the row is sent live", exc_info=True)
            return []
        answer = items[-1]
        if isinstance(answer, LLMResponse):
            items[-1] = replace(answer, metadata={**(answer.metadata or {}), "batched": True})
        return items
