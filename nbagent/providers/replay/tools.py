"""Replays tool results instead of running tools."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Any

from nbagent.core.json_text import json_text
from nbagent.core.messages import FunctionCall
from nbagent.core.results import ToolOutcome
from nbagent.core.run import Tools
from nbagent.errors import ReplayError
from nbagent.providers.replay.file import RecordedExchange


class ReplayedTools:
    """The tools of one run, which return the recorded results for calls in a replayed answer.

    `last_exchange` returns the exchange that was replayed last. It returns None if the model itself answered, and the
    tools then run for real. `recorded` lists all exchanges in the recording. Raises `ReplayError` if a call's result is
    not recorded.
    """

    def __init__(
        self,
        inner: Tools,
        last_exchange: Callable[[], RecordedExchange | None],
        recorded: Sequence[RecordedExchange],
    ) -> None:
        self._inner, self._last_exchange, self._recorded = inner, last_exchange, recorded
        #: The exchange whose calls are being answered, and its unused results.
        self._exchange: RecordedExchange | None = None
        self._results: list[tuple[str, dict[str, Any]]] = []

    def list_functions(self) -> list[dict[str, Any]]:
        """The tools on offer, which are part of a request's identity."""
        return self._inner.list_functions()

    def is_parallel(self, name: str) -> bool:
        """Whether the tool may run at the same time as others."""
        return self._inner.is_parallel(name)

    async def run(self, call: FunctionCall, interrupted: list[ToolOutcome] | None = None) -> ToolOutcome:
        """The recorded result, or the tool's own if the model itself answered."""
        exchange = self._last_exchange()
        if exchange is None:
            return await self._inner.run(call, interrupted)
        if exchange is not self._exchange:
            self._exchange, self._results = exchange, _results_of(exchange, self._recorded)
        wanted = _call_text(call.to_dict())
        for index, (call_text, message) in enumerate(self._results):
            if call_text == wanted:
                del self._results[index]
                return _outcome(call, message)
        raise ReplayError(
            f"the recording has no result for {wanted}, because it lacks the request that followed. Let the tools run "
            "with nbagent.replay(path, run_tools=True), or record again with nbagent.record(path)."
        )


def _results_of(exchange: RecordedExchange, recorded: Sequence[RecordedExchange]) -> list[tuple[str, dict[str, Any]]]:
    """The results of an answer's calls, each with its call, from the next request of the same conversation.

    Several models may have received the same request, and their tools may have returned different results. So requests
    to the same model are searched first, later ones before earlier ones.
    """
    sent = exchange.request.messages
    calls = [_call_text(call) for call in (exchange.response or {}).get("function_calls", ())]
    model = (exchange.provider, exchange.model)
    position = next((number for number, other in enumerate(recorded) if other is exchange), -1)
    later_first = [*recorded[position + 1 :], *recorded[: position + 1]]
    for other in sorted(later_first, key=lambda each: (each.provider, each.model) != model):
        messages = other.request.messages
        answer = messages[len(sent)] if len(messages) > len(sent) and messages[: len(sent)] == sent else {}
        next_calls = answer.get("tool_calls") or ()
        if next_calls and [_call_text(call) for call in next_calls] == calls:
            returned = takewhile(lambda each: each["role"] == "tool", messages[len(sent) + 1 :])
            results = {each.get("tool_call_id"): each for each in returned}
            return [(_call_text(call), results[call["id"]]) for call in next_calls if call["id"] in results]
    return []


def _call_text(call: dict[str, Any]) -> str:
    return f"{call['name']}({json_text(call['arguments'])})"


def _outcome(call: FunctionCall, message: dict[str, Any]) -> ToolOutcome:
    content = message["content"]
    if not isinstance(content, str) and any(str(part.get("data", "")).startswith("sha256:") for part in content):
        raise ReplayError(
            f"{call.name} returned an image, and the recording has only its hash. Let the tools run: "
            "nbagent.replay(path, run_tools=True)."
        )
    return ToolOutcome(
        call,
        content,
        value=content,
        is_error=bool(message.get("is_error")),
        started=time.time(),
        result_chars=len(content) if isinstance(content, str) else 0,
        pinned=bool(message.get("pinned")),
    )
