"""What a provider is: something that turns a conversation into an answer.

`chat` alone makes a provider (`__init__` need not be called, nothing is kept between calls):

>>> class Echo(LLMProvider):
...     model_name = "echo"
...     def supports_function_calling(self): return True
...     async def chat(self, messages, functions=None, temperature=None, **kwargs):
...         return LLMResponse(messages[-1].content)
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

from nbagent.core.events import Event, Text, Thinking
from nbagent.core.messages import LLMMessage, LLMResponse
from nbagent.core.model_request import Functions, ModelRequest


class LLMProvider(ABC):
    """Abstract base of all providers."""

    #: The vendor's name as `create_provider` knows it; tags `provider_extras`.
    vendor: str = "custom"

    @abstractmethod
    async def chat(
        self,
        messages: list[LLMMessage],
        functions: Functions | None = None,
        temperature: float | None = None,
        **kwargs: Any,
    ) -> LLMResponse:
        """One complete answer to the conversation. Raises a `ProviderError` where the vendor fails."""

    @abstractmethod
    def supports_function_calling(self) -> bool:
        """Whether the model itself can call tools; where not, the agent describes them in the prompt."""

    @property
    @abstractmethod
    def model_name(self) -> str:
        """The model's name as the vendor knows it."""

    def check(self) -> None:  # noqa: B027  most providers need nothing
        """Raise what the first request would raise for want of a key."""

    def resolve(self, request: ModelRequest) -> ModelRequest:
        """The request as it will be sent: `effective_options` are filled in. Called once, before `stream`.

        Raises `ConfigurationError` for options that the model can't be given.
        """
        return replace(request, effective_options={"params": {"temperature": None, **request.options}})

    async def stream(self, request: ModelRequest) -> AsyncIterator[Event | LLMResponse]:
        """The same answer in pieces: `Text`, `Thinking`, `ToolCallDelta`, `Retry`, `Http`, and the `LLMResponse` last.

        `request` comes from `resolve`. Leave this method as it is and the answer arrives in one piece.
        """
        # a temperature is passed only where one was asked for, so that the default of `chat` stands
        answer: Any = self.chat(request.messages, request.tools, **request.options)
        is_async = inspect.isawaitable(answer)
        response = await answer if is_async else answer
        if not is_async or not isinstance(response, LLMResponse):
            name, gave = type(self).__name__, type(response).__name__
            raise TypeError(f"{name}.chat() must be async and return an LLMResponse, and gave a {gave}")
        thinking = (response.metadata or {}).get("thinking")
        if thinking:
            yield Thinking(thinking)
        if response.content:
            yield Text(response.content)
        yield response

    def output_options(self, name: str, schema: dict[str, Any]) -> dict[str, Any]:
        """Request options that hold the answer to a JSON Schema; none where the model can't be held to one."""
        return {}

    async def model_list(self) -> list[str]:
        """The names of the models to choose from, sorted; this one alone where the provider has no others.

        >>> import asyncio
        >>> from nbagent.providers import create_provider
        >>> asyncio.run(create_provider("scripted").model_list())
        ['scripted']
        """
        return [self.model_name]

    async def aclose(self) -> None:  # noqa: B027  most providers have nothing to close
        """Close connections. Nothing to do where there are none."""


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


class ProviderAround(StreamingProvider):
    """A provider between an agent and its own, `inner`, whose name and vendor it has."""

    def __init__(self, inner: LLMProvider) -> None:
        self.inner = inner
        self.vendor = inner.vendor

    @property
    def model_name(self) -> str:
        """The inner model's name."""
        return self.inner.model_name

    def supports_function_calling(self) -> bool:
        """True: where the inner one does not, this one does it."""
        return True

    async def aclose(self) -> None:
        """Close the inner provider."""
        await self.inner.aclose()
