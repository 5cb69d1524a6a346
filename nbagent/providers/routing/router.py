"""`Router`: chooses by the question which of several models answers."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

from nbagent.checks import invalid
from nbagent.core.content.images import has_image
from nbagent.core.messages import LLMMessage
from nbagent.core.model_request import ModelRequest
from nbagent.errors import AuthenticationError
from nbagent.providers import ProviderInput, resolve
from nbagent.providers.base import LLMProvider
from nbagent.providers.routing.composite import CompositeProvider

#: Characters of a question that the default rule takes for a short one.
SHORT = 300

Choose = Callable[[list[LLMMessage]], str | Awaitable[str]]


class Router(CompositeProvider):
    """Several models by name, of which one answers each question. Pass it as an agent's provider.

    - `models`: what `Agent` takes for a provider, by names of your own; a list goes on with the next one if one fails
    - `choose`: gets the messages as the model would read them, the question last, and returns a name; sync or async, so
      that it may ask an agent, whose tokens then count for this run. It is called once for each question: what follows
      a tool's result is asked of the same model. Without one, the first model gets short questions (under 300
      characters, without images and blocks of code), and the last one all others.

    `trace.calls` has the model that answered, with its price.

    >>> router = Router({"cheap": "openai:gpt-5.6-luna", "strong": ["claude", "openai"]})   # doctest: +SKIP
    >>> agent = Agent(Router(models, choose=lambda messages: "strong" if "why" in messages[-1].text else "cheap"))
    ... # doctest: +SKIP
    """

    vendor = "router"

    def __init__(
        self,
        models: Mapping[str, ProviderInput],
        choose: Choose | None = None,
    ) -> None:
        fix = "Pass {'cheap': 'openai:gpt-5.6-luna', 'strong': 'claude:claude-sonnet-5'}."
        if not isinstance(models, Mapping) or not models or not all(isinstance(name, str) for name in models):
            raise invalid("models", models, "a dict with one model or more by name", fix, secret=True)
        if choose is not None and not callable(choose):
            raise invalid("choose", choose, "a function of the messages that returns a name", fix=str(list(models)))
        self.models = {name: resolve(model) for name, model in models.items()}
        self._choose = choose or self._by_length
        #: Under which questions keep what was chosen for them.
        self._mark = object()

    @property
    def members(self) -> Sequence[LLMProvider]:
        """All models."""
        return [member for model in self.models.values() for member in model.members]

    @property
    def model_name(self) -> str:
        """All models with their names."""
        return ", ".join(f"{name}={model.vendor}:{model.model_name}" for name, model in self.models.items())

    def __repr__(self) -> str:
        return f"Router({self.models!r})"

    def check(self) -> None:
        """Raise what any of the models raises because there is no key: it may be chosen."""
        for name, model in self.models.items():
            try:
                model.check()
            except AuthenticationError as error:
                error.add_note(f"It is the model {name!r} of a Router.")
                raise

    async def candidates(self, request: ModelRequest) -> Iterable[LLMProvider]:
        """Those of the chosen model."""
        found = self.models[await self._chosen(request.messages)].candidates(request)
        return await found if isinstance(found, Awaitable) else found

    async def _chosen(self, messages: list[LLMMessage]) -> str:
        at = max((place for place, message in enumerate(messages) if message.opens_turn), default=len(messages) - 1)
        question = messages[at]
        if (known := question.encoded.get(self._mark)) is not None:
            return str(known)
        given: Any = self._choose(messages[: at + 1])
        name = await given if inspect.isawaitable(given) else given
        if name not in self.models:
            raise invalid("choose", name, f"the name of a model ({', '.join(self.models)})")
        question.encoded[self._mark] = name
        return str(name)

    def _by_length(self, messages: list[LLMMessage]) -> str:
        question = messages[-1]
        is_short = len(question.text) < SHORT and "```" not in question.text and not has_image(question.content)
        return list(self.models)[0 if is_short else -1]
