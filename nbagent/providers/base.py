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
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from nbagent.core.events import Event, Text, Thinking
from nbagent.core.messages import LLMMessage, LLMResponse

#: What the agent offers as tools: `{"name": str, "description": str, "parameters": JSON schema}`.
Functions = Sequence[dict[str, Any]]


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

    async def stream(
        self,
        messages: list[LLMMessage],
        functions: Functions | None = None,
        temperature: float | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[Event | LLMResponse]:
        """The same answer in pieces: `Text`, `Thinking`, `ToolCallDelta`, `Retry`, `Http`, and the `LLMResponse` last.

        Leave it as it is and the answer arrives in one piece.
        """
        if temperature is not None:  # only then, so that a provider's own default stands
            kwargs["temperature"] = temperature
        answer: Any = self.chat(messages, functions, **kwargs)
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

    def request_facts(
        self,
        messages: Sequence[LLMMessage],
        functions: Functions | None,
        temperature: float | None,
        options: Mapping[str, Any],
    ) -> dict[str, Any]:
        """What the trace's `calls` say of a request: `thinking_level`, `tool_choice`, `params`, as they are sent."""
        return {"params": {"temperature": temperature, **options}}

    async def aclose(self) -> None:  # noqa: B027  most providers have nothing to close
        """Close connections. Nothing to do where there are none."""


class StreamingProvider(LLMProvider):
    """A provider whose `stream` is written and whose `chat` is its end."""

    async def chat(
        self,
        messages: list[LLMMessage],
        functions: Functions | None = None,
        temperature: float | None = None,
        **kwargs: Any,
    ) -> LLMResponse:
        """The whole answer, streamed under the surface."""
        return await collect(self.stream(messages, functions, temperature, **kwargs))

    @abstractmethod
    def stream(
        self,
        messages: list[LLMMessage],
        functions: Functions | None = None,
        temperature: float | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[Event | LLMResponse]:
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


async def collect(stream: AsyncIterator[Event | LLMResponse]) -> LLMResponse:
    """The `LLMResponse` at the end of a stream."""
    response = None
    async for item in stream:
        if isinstance(item, LLMResponse):
            response = item
    if response is None:
        raise RuntimeError("a provider's stream() must end with an LLMResponse")
    return response
