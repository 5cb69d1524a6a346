"""Routes: functions that answer simple prompts instead of a model. `Agent.route` adds one."""

from __future__ import annotations

import inspect
import re
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from typing import Any

from nbagent.core.events import Event, Text
from nbagent.core.inputs import MessageInput, as_messages
from nbagent.core.messages import LLMResponse, Usage
from nbagent.core.model_request import ModelRequest
from nbagent.core.threads import run_in_thread
from nbagent.errors import ConfigurationError
from nbagent.providers.base import StreamingProvider

#: The provider name for functions' answers.
ROUTE = "route"


@dataclass(frozen=True, slots=True)
class Route:
    """A function and the prompts that it answers: those that match a pattern, or for which a predicate returns True."""

    when: str | re.Pattern[str] | Callable[[str], Any]
    function: Callable[[Any], Any]

    def __post_init__(self) -> None:
        """Raise `re.error` for an invalid pattern."""
        if not callable(self.when):
            re.compile(self.when)

    def match(self, prompt: str) -> Any:
        """The argument for the function: the pattern's match, or the prompt. None if the route does not apply."""
        if callable(self.when):
            return prompt if self.when(prompt) else None
        return re.search(self.when, prompt)


def provider_for(routes: Iterable[Route], message: MessageInput) -> RouteProvider | None:
    """The first route that applies, as a provider; None if there is none."""
    prompt = next((each.text for each in reversed(as_messages(message)) if each.opens_turn), "") if routes else ""
    for route in routes if prompt else ():
        if (match := route.match(prompt)) is not None:
            return RouteProvider(route.function, match)
    return None


class RouteProvider(StreamingProvider):
    """A function acting as one run's model. Its answer is shown and traced like any other, and costs nothing."""

    provider_name = ROUTE

    def __init__(self, function: Callable[[Any], Any], match: Any) -> None:
        self.price = {"input": 0.0, "output": 0.0}
        self._function, self._match = function, match

    @property
    def model_name(self) -> str:
        """The name of the function."""
        name = getattr(self._function, "__name__", type(self._function).__name__)
        return "function" if name == "<lambda>" else name

    def supports_function_calling(self) -> bool:
        """True, since a route needs no tools."""
        return True

    async def stream(self, request: ModelRequest) -> AsyncIterator[Event | LLMResponse]:
        """The function's return value. A blocking function runs in a thread."""
        is_async = inspect.iscoroutinefunction(self._function)
        result: Any = self._function(self._match) if is_async else run_in_thread(self._function, self._match)
        answer = await result
        answer = await answer if inspect.isawaitable(answer) else answer
        if not isinstance(answer, str | int | float):
            raise ConfigurationError(f"The route {self.model_name} returned {answer!r}. Return the answer as text.")
        yield Text(str(answer))
        yield LLMResponse(str(answer), None, "stop", {"usage": Usage(), "usage_estimated": False})
