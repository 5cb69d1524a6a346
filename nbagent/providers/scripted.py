"""A provider with scripted answers, for tests, demonstrations without a key, and trying out errors."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Any

from nbagent.checks import invalid
from nbagent.core.events import Event, Text, Thinking
from nbagent.core.messages import FunctionCall, LLMMessage, LLMResponse, Usage
from nbagent.core.model_request import ModelRequest
from nbagent.core.provider_calls import events_of
from nbagent.errors import ConfigurationError
from nbagent.providers.base import StreamingProvider
from nbagent.providers.options.settings import check_price

#: One turn: a string, a call, several calls, a whole response, or an exception to raise.
ScriptedTurn = str | FunctionCall | list[FunctionCall] | LLMResponse | BaseException


class ScriptedProvider(StreamingProvider):
    """Answers with the next of `turns`, or with the result of a sync or async function `turns(messages, functions)`.

    A single text, call, response or exception is a script of one turn. Texts are streamed word by word, `delay` seconds
    apart. `requests` lists the `(messages, functions)` of each request. Without a `price`, answers cost nothing.

    >>> provider = ScriptedProvider([FunctionCall("get_weather", {"city": "Berlin"}), "It is sunny in Berlin."])
    """

    provider_name = "scripted"

    def __init__(
        self,
        turns: Iterable[ScriptedTurn] | ScriptedTurn | Callable[..., Any] = (),
        *,
        model: str = "scripted",
        delay: float = 0.0,
        function_calling: bool = True,
        price: Mapping[str, float] | None = None,
    ) -> None:
        check_price(price)
        self.price = price
        if isinstance(turns, str | FunctionCall | LLMResponse | BaseException):
            turns = [turns]
        self._next = turns if callable(turns) else None
        self._turns = iter(()) if callable(turns) else iter(turns)
        self._model = model
        self._delay = delay
        self._function_calling = function_calling
        self.requests: list[tuple[list[LLMMessage], list[dict[str, Any]]]] = []

    @property
    def model_name(self) -> str:
        """See `LLMProvider.model_name`; set by `model`."""
        return self._model

    def supports_function_calling(self) -> bool:
        """See `LLMProvider.supports_function_calling`; set by `function_calling`."""
        return self._function_calling

    async def stream(self, request: ModelRequest) -> AsyncIterator[Event | LLMResponse]:
        """The next turn, word by word."""
        self.requests.append((request.all_messages, list(request.tools or [])))
        response = _as_response(await self._turn(request), request.all_messages)
        thinking = (response.metadata or {}).get("thinking")
        if thinking:
            yield Thinking(thinking)
        for event in events_of(response.metadata or {}):
            yield event
        for word in _words(response.content):
            await asyncio.sleep(self._delay)
            yield Text(word)
        yield response

    async def _turn(self, request: ModelRequest) -> ScriptedTurn:
        if self._next is not None:
            result = self._next(request.all_messages, request.tools)
            turn: ScriptedTurn = await result if inspect.isawaitable(result) else result
            return turn
        try:
            return next(self._turns)
        except StopIteration:
            raise ConfigurationError(
                f"the script has no turn for request {len(self.requests)}: pass ScriptedProvider more turns, or a "
                "function"
            ) from None


def _as_response(turn: ScriptedTurn, messages: list[LLMMessage]) -> LLMResponse:
    """A scripted turn as a response. Its usage counts words, so traces and limits have numbers."""
    if isinstance(turn, BaseException):
        raise turn
    if isinstance(turn, LLMResponse):
        return turn
    usage = Usage(sum(len(m.text.split()) for m in messages), len(turn.split()) if isinstance(turn, str) else 1)
    if isinstance(turn, str):
        return LLMResponse(turn, None, "stop", {"usage": usage})
    calls = [turn] if isinstance(turn, FunctionCall) else turn
    if not isinstance(calls, list) or not all(isinstance(call, FunctionCall) for call in calls):
        raise invalid("turn", turn, "a string, a FunctionCall, a list of FunctionCalls, an LLMResponse or an exception")
    return LLMResponse("", calls, "tool_calls", {"usage": usage})


def _words(text: str) -> list[str]:
    """`"a b"` -> `["a ", "b"]`."""
    return text.replace(" ", " \0").split("\0") if text else []
