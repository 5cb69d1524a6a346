"""`StructuredProvider`: constrains each answer to a JSON Schema if the provider can.

If it can't do this at all, can't do it while tools are on offer, or refuses this schema, the model learns the schema
only from the instructions.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

from nbagent.core.async_iterators import aclose_if_possible
from nbagent.core.events import Event, Retry
from nbagent.core.messages import LLMResponse
from nbagent.core.model_request import ModelRequest
from nbagent.core.output import Output
from nbagent.errors import BadRequestError, ContextLengthError
from nbagent.providers.base import LLMProvider, WrapperProvider

#: Refused combinations of model, server, schema and tools. For these, only the prompt contains the schema.
_REFUSED: set[tuple[object, ...]] = set()


class StructuredProvider(WrapperProvider):
    """Asks an `inner` provider for answers of type `output`."""

    def __init__(self, inner: LLMProvider, output: Output) -> None:
        super().__init__(inner)
        self._output = output

    def resolve(self, request: ModelRequest) -> ModelRequest:
        """See `LLMProvider.resolve`. The inner provider receives the schema among the request options."""
        ours = self._schema_options(request)
        is_refused = bool(ours) and self._key(request) in _REFUSED
        options = {**ours, **request.options} if ours and not is_refused else request.options
        inner = self.inner.resolve(replace(request, options=options))
        if is_refused:
            refused = {**inner.effective_options.get("refused", {}), **dict.fromkeys(ours)}
            inner = replace(inner, effective_options={**inner.effective_options, "refused": refused})
        return replace(inner, options=request.options, resolved=inner)

    async def stream(self, request: ModelRequest) -> AsyncIterator[Event | LLMResponse]:
        """See `LLMProvider.stream`. If the provider refuses the schema, the request is sent once more without it."""
        inner: ModelRequest = request.resolved
        has_answered = False
        try:
            async with aclose_if_possible(self.inner.stream(inner)) as items:
                async for item in items:
                    has_answered = has_answered or isinstance(item, LLMResponse)
                    yield item
            return
        except BadRequestError as error:
            if inner.options is request.options or has_answered or isinstance(error, ContextLengthError):
                raise
            name, *_ = self._schema_options(request)
            text = f"{self.model_name} refused {name}. Trying again with the schema in the instructions only. {error}"
            about = {"attempt": 1, "wait_s": 0.0, "discard_chars": 0, "error": type(error).__name__}
            retry = Retry(text, metadata={**about, "refused": name, "instead": None})
        yield retry
        plain = self.inner.resolve(replace(request, resolved=None))
        async with aclose_if_possible(self.inner.stream(plain)) as items:
            async for item in items:
                if isinstance(item, LLMResponse):
                    _REFUSED.add(self._key(request))
                yield item

    def _schema_options(self, request: ModelRequest) -> dict[str, Any]:
        """The options that constrain the answer; none if the provider can't, or can't with tools."""
        if not self._output.schema or (request.tools and not self.inner.holds_schema_with_tools()):
            return {}
        return self.inner.output_options(self._output.name, self._output.schema)

    def _key(self, request: ModelRequest) -> tuple[object, ...]:
        address = getattr(self.inner, "base_url", "")
        return self.provider_name, self.model_name, address, self._output.instructions, bool(request.tools)
