"""`Candidates`: several models as one provider. The prompt decides which one answers, and fallbacks take over if that
one fails.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from time import monotonic
from typing import Any, Self

from nbagent.checks import invalid
from nbagent.core.content.images import has_image
from nbagent.core.current import set_current
from nbagent.core.messages import LLMMessage, LLMResponse
from nbagent.core.model_request import Functions, ModelRequest
from nbagent.errors import AuthenticationError, ProviderError
from nbagent.providers import ProviderInput, resolve
from nbagent.providers.base import LLMProvider

#: How long a failed model is tried after the others, in seconds.
REST_S = 60.0
#: The default rule treats a prompt with fewer characters as short.
SHORT = 300

Choose = Callable[[list[LLMMessage]], str | Awaitable[str]]


class Candidates(LLMProvider):
    """Several models, one of which answers each prompt. Pass it as an agent's provider.

    - `models`: a list of models, or a dict of them by name. The first model of a list answers, or the next one if it
      fails; `Agent([…])` creates such candidates. In a dict, the keys are names of your choice, the values are models
      or lists of models, and `choose` picks a name for each prompt.
    - `choose`: receives the messages for the model, ending with the prompt, and returns a name. It may be async and
      call an agent, whose tokens count towards this run. It is called once per prompt: the same model continues after a
      tool's result. By default, the first name answers short prompts (under 300 characters, without images or code
      blocks), and the last name answers all others.

    The next model takes over after an error unrelated to the request (`ProviderError.may_fall_back`): no connection, a
    provider that is down, overloaded or not available in your region, an exhausted quota or rate limit, a broken
    answer, or no key at all. A wrong key, an unknown model or a refused request raises its error instead. Each model
    first retries up to its `max_retries`. For a minute, a failed model is tried last by all agents that share these
    candidates.

    The trace names the model that answers, and its prices and options apply.

    >>> models = {"cheap": "openai:gpt-5.6-luna", "strong": ["claude", "openai"]}               # doctest: +SKIP
    >>> agent = Agent(Candidates(models, lambda messages: "strong" if "why" in messages[-1].text else "cheap"))
    ... # doctest: +SKIP
    """

    def __init__(
        self, models: Sequence[ProviderInput] | Mapping[str, ProviderInput], choose: Choose | None = None
    ) -> None:
        self._is_list = isinstance(models, list | tuple)
        named = {"": models} if self._is_list else models
        if not isinstance(named, Mapping) or not models or not all(isinstance(name, str) for name in named):
            fix = "Pass ['claude', 'openai'], or {'cheap': 'openai:gpt-5.6-luna', 'strong': 'claude:claude-sonnet-5'}."
            raise invalid("models", models, "a list of models, or a dict of them by name", fix, secret=True)
        if choose is not None and (self._is_list or not callable(choose)):
            raise invalid("choose", choose, "a function that takes messages and returns a name, for a dict of models")
        #: The models by name, each with its fallbacks.
        self.models = {name: _in_turn(model) for name, model in named.items()}
        first = self.members[0]
        self.provider_name, self.price = (first.provider_name, first.price) if self._is_list else ("candidates", None)
        self._choose = choose or self._by_length
        self._ready: Callable[[LLMProvider], LLMProvider] = lambda member: member
        #: The time until which a failed model is tried last, by its `id()`.
        self._rests: dict[int, float] = {}
        #: The key under which a prompt keeps its chosen name.
        self._mark = object()

    def ready(self, ready: Callable[[LLMProvider], LLMProvider]) -> Self:
        """A copy for one run. The function `ready` sets up each candidate before it is used."""
        other = copy(self)
        other._ready = ready
        return other

    @property
    def members(self) -> Sequence[LLMProvider]:
        """All models."""
        return [member for models in self.models.values() for member in models]

    @property
    def model_name(self) -> str:
        """The name of a list's first model. For a dict, each name with its first model."""
        if self._is_list:
            return self.members[0].model_name
        firsts = {name: members[0] for name, members in self.models.items()}
        return ", ".join(f"{name}={first.provider_name}:{first.model_name}" for name, first in firsts.items())

    @property
    def rate_key(self) -> str:
        """See `LLMProvider.rate_key`."""
        return self.members[0].rate_key

    @property
    def secrets(self) -> Sequence[str]:
        """All members' secrets, for redaction."""
        return [secret for member in self.members for secret in getattr(member, "secrets", ())]

    def __repr__(self) -> str:
        return f"Candidates({self.members if self._is_list else self.models!r})"

    def check(self) -> None:
        """If a name has no model with a key, raise the error of its first model."""
        for name, members in self.models.items():
            problems = []
            for member in members:
                try:
                    member.check()
                except AuthenticationError as problem:
                    problems.append(problem)
            if len(problems) == len(members):
                if name:
                    problems[0].add_note(f"This is the model {name!r} in Candidates.")
                raise problems[0]

    def supports_function_calling(self) -> bool:
        """True, since the agent describes tools in the prompt for members that can't call them."""
        return True

    def resolve(self, request: ModelRequest) -> ModelRequest:
        """The request with the first member's options, as a preview. Each candidate resolves the request again."""
        return replace(request, effective_options=self.members[0].resolve(request).effective_options)

    async def candidates(self, request: ModelRequest) -> Iterable[LLMProvider]:
        """The models under the chosen name, with recently failed ones last. Taking the next model marks the previous
        one as failed.
        """
        return self._one_by_one(self.models[await self._chosen(request.messages)])

    def _one_by_one(self, members: Sequence[LLMProvider]) -> Iterator[LLMProvider]:
        now = monotonic()
        members = sorted(members, key=lambda member: self._rests.get(id(member), now) > now)
        for member in members:
            set_current(has_alternative=member is not members[-1])
            yield self._ready(member)
            self._rests[id(member)] = monotonic() + REST_S

    async def _chosen(self, messages: list[LLMMessage]) -> str:
        if self._is_list:
            return ""
        at = max((place for place, message in enumerate(messages) if message.opens_turn), default=len(messages) - 1)
        prompt = messages[at]
        if (chosen := prompt.encoded.get(self._mark)) is not None:
            return str(chosen)
        choice: Any = self._choose(messages[: at + 1])
        name = await choice if inspect.isawaitable(choice) else choice
        if name not in self.models:
            raise invalid("choose", name, f"the name of a model ({', '.join(self.models)})")
        prompt.encoded[self._mark] = name
        return str(name)

    def _by_length(self, messages: list[LLMMessage]) -> str:
        prompt = messages[-1]
        is_short = len(prompt.text) < SHORT and "```" not in prompt.text and not has_image(prompt.content)
        return list(self.models)[0 if is_short else -1]

    async def chat(
        self,
        messages: list[LLMMessage],
        functions: Functions | None = None,
        temperature: float | None = None,
        **kwargs: Any,
    ) -> LLMResponse:
        """The answer from the first candidate that does not fail."""
        failure: ProviderError | None = None
        for candidate in await self.candidates(ModelRequest(messages, functions)):
            try:
                return await candidate.chat(messages, functions, temperature, **kwargs)
            except ProviderError as error:
                if not error.may_fall_back:
                    raise
                failure = error
        assert failure is not None
        raise failure

    async def aclose(self) -> None:
        """Close all members."""
        for member in self.members:
            await member.aclose()


def _in_turn(model: Any) -> tuple[LLMProvider, ...]:
    """The model, or the models of a list."""
    members = tuple(resolve(each) for each in (model if isinstance(model, list | tuple) else [model]))
    if not members or any(isinstance(member, Candidates) for member in members):
        fix = "Pass names, such as ['claude:claude-sonnet-5', 'openai:gpt-5.6-terra']."
        raise invalid("provider", model, "a list of models, in the order in which to try them", fix, secret=True)
    return members
