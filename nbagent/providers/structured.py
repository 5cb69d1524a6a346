"""`StructuredProvider`: holds each answer to a JSON Schema where the vendor can.

Where it can't, or can't while tools are on offer, or refuses this schema, the model knows the schema from its
instructions alone.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Any

from nbagent.core.aclose import aclose_if_possible
from nbagent.core.events import Event
from nbagent.core.messages import LLMResponse
from nbagent.core.model_request import ModelRequest
from nbagent.core.output import Output
from nbagent.errors import BadRequestError, ContextLengthError
from nbagent.providers.base import LLMProvider, WrapperProvider

log = logging.getLogger("nbagent")

#: Combinations of server, model, schema and tools that were refused: from then on, the schema is only in the prompt.
_REFUSED: set[tuple[str, ...]] = set()


class StructuredProvider(WrapperProvider):
    """Asks an `inner` provider for answers of the type `output`."""

    def __init__(self, inner: LLMProvider, output: Output) -> None:
        super().__init__(inner)
        self._output = output

    def resolve(self, request: ModelRequest) -> ModelRequest:
        """See `LLMProvider.resolve`. The inner provider gets the request with the schema among its options."""
        options = self._with_schema(request)
        inner = self.inner.resolve(replace(request, options=options))
        return replace(inner, options=request.options, resolved=inner)

    async def stream(self, request: ModelRequest) -> AsyncIterator[Event | LLMResponse]:
        """See `LLMProvider.stream`. If the vendor refuses the schema, it is asked once more without it."""
        inner: ModelRequest = request.resolved
        has_begun = False
        try:
            async with aclose_if_possible(self.inner.stream(inner)) as items:
                async for item in items:
                    has_begun = has_begun or isinstance(item, LLMResponse)
                    yield item
            return
        except BadRequestError as error:
            if has_begun or inner.options is request.options or isinstance(error, ContextLengthError):
                raise
            log.info("%s refuses a JSON Schema for its answer: asking without one. %s", self.model_name, error)
        plain = self.inner.resolve(replace(request, resolved=None))
        async with aclose_if_possible(self.inner.stream(plain)) as items:
            async for item in items:
                if isinstance(item, LLMResponse):
                    _REFUSED.add(self._refusal_key(request))
                yield item

    def _with_schema(self, request: ModelRequest) -> Mapping[str, Any]:
        """The options of the request, and those that constrain the answer; the user's own win."""
        has_place = not request.tools or self.inner.holds_schema_with_tools()
        if not has_place or not self._output.schema or self._refusal_key(request) in _REFUSED:
            return request.options
        ours = self.inner.output_options(self._output.name, self._output.schema)
        if not ours:
            return request.options
        both = {**ours, **request.options}
        for name, value in ours.items():
            if isinstance(value, Mapping) and isinstance(given := request.options.get(name), Mapping):
                both[name] = {**value, **given}
        return both

    def _refusal_key(self, request: ModelRequest) -> tuple[str, ...]:
        address = getattr(self.inner, "base_url", "")
        return (self.vendor, address, self.model_name, self._output.instructions, "tools" if request.tools else "")
