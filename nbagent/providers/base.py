"""The base classes of providers. A provider sends a conversation to a model and returns the model's answer.

A provider needs only `chat`, and need not call the base class's `__init__`:

>>> class Echo(LLMProvider):
...     async def chat(self, messages, functions=None, temperature=None, **kwargs):
...         return LLMResponse(messages[-1].content)
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Any, NamedTuple

from nbagent.core.events import Event, Text, Thinking
from nbagent.core.messages import LLMMessage, LLMResponse
from nbagent.core.model_request import Functions, ModelRequest
from nbagent.providers.catalog import CATALOG
from nbagent.providers.options.provider_tools import available, check_available
from nbagent.providers.options.settings import check_request_options


class ListedModel(NamedTuple):
    """A model that a provider offers."""

    name: str
    #: When it was created, according to the provider; None if unknown.
    created: date | None = None
    #: Whether the provider has retired it, or announced that it will.
    is_retired: bool = False


class LLMProvider(ABC):
    """The base class of all providers. It keeps no state."""

    #: The name for `create_provider`; it also tags `provider_extras`.
    provider_name: str = "custom"
    #: US dollars per million tokens: `{"input": 0.5, "output": 1.5, "cached": 0.05}`. Without "cached", cached input
    #: costs as much as other input. None: use the price list.
    price: Mapping[str, float] | None = None

    @abstractmethod
    async def chat(
        self,
        messages: list[LLMMessage],
        functions: Functions | None = None,
        temperature: float | None = None,
        **kwargs: Any,
    ) -> LLMResponse:
        """Return a complete answer to the conversation. Raises a `ProviderError` if the provider fails.

        `functions` are the tools on offer. `kwargs` are further request options, such as `max_tokens`.
        """

    def supports_function_calling(self) -> bool:
        """Whether `chat` offers `functions` to the model. If not, the agent describes them in the prompt."""
        return False

    @property
    def model_name(self) -> str:
        """The provider's name for the model; by default, the class name."""
        return type(self).__name__

    @property
    def rate_key(self) -> str:
        """The provider and model, as the key under which requests and tokens per minute are counted."""
        return f"{self.provider_name} {self.model_name}"

    @property
    def members(self) -> Sequence[LLMProvider]:
        """The providers that this one combines; by default, only itself."""
        return (self,)

    def candidates(self, request: ModelRequest) -> tuple[LLMProvider, ...] | Awaitable[Iterable[LLMProvider]]:
        """The providers to try for this request, in order: itself, or its members."""
        return (self,)

    def check(self) -> None:  # noqa: B027  most providers need nothing
        """If there is no key, raise the error that the first request would raise."""

    def resolve(self, request: ModelRequest) -> ModelRequest:
        """Complete a request before it is sent: set its `effective_options`. Called once for each request.

        Raises `ConfigurationError` for options that the model does not accept.
        """
        check_available(request.tools, self.provider_name)
        return replace(request, effective_options={"params": {"temperature": None, **request.options}})

    async def stream(self, request: ModelRequest) -> AsyncIterator[Event | LLMResponse]:
        """Yield `Text`, `Thinking`, `ToolCallDelta`, `Retry` and `Http` events, and the `LLMResponse` last.

        `request` comes from `resolve`. By default, the answer from `chat` arrives in one piece.
        """
        answer: Any = self.chat(request.all_messages, request.tools, **request.options)
        is_async = inspect.isawaitable(answer)
        response = await answer if is_async else answer
        if not is_async or not isinstance(response, LLMResponse):
            name, gave = type(self).__name__, type(response).__name__
            raise TypeError(f"{name}.chat() must be async and return an LLMResponse, got a {gave}")
        thinking = (response.metadata or {}).get("thinking")
        if thinking:
            yield Thinking(thinking)
        if response.content:
            yield Text(response.content)
        yield response

    def output_options(self, name: str, schema: dict[str, Any]) -> dict[str, Any]:
        """Request options that constrain the answer to a JSON Schema; empty if the provider has no such options."""
        return {}

    def holds_schema_with_tools(self) -> bool:
        """Whether a request may combine `output_options` with tools: the model calls tools, then answers in JSON."""
        return False

    def can_compact(self, tokens: int) -> bool:
        """Whether the provider can summarise earlier messages once a request has this many tokens."""
        return False

    def provider_tools(self) -> list[str]:
        """The names of the tools that the provider itself runs for this model, such as `web_search`.

        >>> from nbagent.providers import create_provider
        >>> create_provider("openai:gpt-5.6-terra").provider_tools()
        ['web_search', 'code_execution', 'image_generation', 'remote_mcp', 'tool_search']
        """
        return available(CATALOG.get(self.provider_name), "", self.model_name)

    async def model_list(self) -> list[ListedModel]:
        """The models to choose from, newest first. A provider without a list returns its own model.

        >>> import asyncio
        >>> from nbagent.providers import create_provider
        >>> [each.name for each in asyncio.run(create_provider("scripted").model_list())]
        ['scripted']
        """
        return [ListedModel(self.model_name)]

    async def aclose(self) -> None:  # noqa: B027  most providers have nothing to close
        """Close the provider's connections."""


class StreamingProvider(LLMProvider):
    """A provider that implements `stream`; its `chat` reads the stream to the end."""

    async def chat(
        self,
        messages: list[LLMMessage],
        functions: Functions | None = None,
        temperature: float | None = None,
        **kwargs: Any,
    ) -> LLMResponse:
        """See `LLMProvider.chat`. The answer is streamed and returned as a whole."""
        check_request_options(kwargs)
        options = kwargs if temperature is None else {**kwargs, "temperature": temperature}
        response = None
        async for item in self.stream(self.resolve(ModelRequest(messages, functions, options))):
            if isinstance(item, LLMResponse):
                response = item
        if response is None:
            raise RuntimeError(f"{type(self).__name__}.stream() must end with an LLMResponse")
        return response

    @abstractmethod
    def stream(self, request: ModelRequest) -> AsyncIterator[Event | LLMResponse]:
        """See `LLMProvider.stream`."""


class WrapperProvider(StreamingProvider):
    """A provider between an agent and its actual provider, `inner`. It has the same provider name and model name."""

    def __init__(self, inner: LLMProvider) -> None:
        self.inner = inner
        self.provider_name, self.price = inner.provider_name, inner.price
        #: The trace uses these.
        self.base_url, self.streaming = getattr(inner, "base_url", ""), getattr(inner, "streaming", None)

    @property
    def model_name(self) -> str:
        """See `LLMProvider.model_name`."""
        return self.inner.model_name

    @property
    def rate_key(self) -> str:
        """See `LLMProvider.rate_key`."""
        return self.inner.rate_key

    @property
    def secrets(self) -> Sequence[str]:
        """The inner provider's secrets, for redaction."""
        secrets: Sequence[str] = getattr(self.inner, "secrets", ())
        return secrets

    def supports_function_calling(self) -> bool:
        """True, since `PromptedProvider` handles tool calls if the model can't."""
        return True

    def can_compact(self, tokens: int) -> bool:
        """See `LLMProvider.can_compact`."""
        return self.inner.can_compact(tokens)

    def output_options(self, name: str, schema: dict[str, Any]) -> dict[str, Any]:
        """See `LLMProvider.output_options`."""
        return self.inner.output_options(name, schema)

    async def aclose(self) -> None:
        """Close the inner provider."""
        await self.inner.aclose()
