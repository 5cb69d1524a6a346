"""`CompositeProvider`: several providers as one."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import replace

from nbagent.core.aclose import aclose_if_possible
from nbagent.core.events import Event, Retry
from nbagent.core.messages import LLMResponse
from nbagent.core.model_request import ModelRequest
from nbagent.errors import ProviderError
from nbagent.providers.base import LLMProvider, StreamingProvider, WrapperProvider


class CompositeProvider(StreamingProvider):
    """Several providers as one. For each request, `candidates` names those to ask, the next one if one fails.

    An agent asks the candidates itself, so that its trace, prices and options are those of the one that answers.
    """

    @property
    @abstractmethod
    def members(self) -> Sequence[LLMProvider]:
        """All that may answer."""

    @abstractmethod
    async def candidates(self, request: ModelRequest) -> Iterable[LLMProvider]:
        """Those to ask. Whoever asks for the next one says that the one before failed."""

    @property
    def secrets(self) -> Sequence[str]:
        """Those of all members, for what hides them."""
        return [secret for member in self.members for secret in getattr(member, "secrets", ())]

    def supports_function_calling(self) -> bool:
        """True: an agent helps those members that can't."""
        return True

    def resolve(self, request: ModelRequest) -> ModelRequest:
        """The request, with the options of the first member, which a preview shows. Each candidate has its own."""
        return replace(request, effective_options=self.members[0].resolve(request).effective_options)

    async def stream(self, request: ModelRequest) -> AsyncIterator[Event | LLMResponse]:
        """The answer of the first candidate that has one."""
        failure: ProviderError | None = None
        for candidate in await self.candidates(request):
            if failure is not None:
                following = f"{candidate.vendor}:{candidate.model_name}"
                yield Retry(f"{failure.message.rstrip('.')}. Going on with {following}.", metadata={"next": following})
            try:
                async with aclose_if_possible(candidate.stream(candidate.resolve(request))) as items:
                    async for item in items:
                        yield item
                return
            except ProviderError as error:
                if not error.elsewhere:
                    raise
                failure = error
        if failure is not None:
            raise failure

    async def aclose(self) -> None:
        """Close all members."""
        for member in self.members:
            await member.aclose()


class ReadyProvider(WrapperProvider):
    """A composite provider in one run: each candidate is made ready for it, as a provider by itself would be."""

    inner: CompositeProvider

    def __init__(self, inner: CompositeProvider, ready: Callable[[LLMProvider], LLMProvider]) -> None:
        super().__init__(inner)
        self._ready = ready

    async def candidates(self, request: ModelRequest) -> Iterable[LLMProvider]:
        """Those of the inner provider."""
        return map(self._ready, await self.inner.candidates(request))

    def resolve(self, request: ModelRequest) -> ModelRequest:
        """See `CompositeProvider.resolve`."""
        return self.inner.resolve(request)

    def stream(self, request: ModelRequest) -> AsyncIterator[Event | LLMResponse]:
        """See `CompositeProvider.stream`."""
        return self.inner.stream(request)
