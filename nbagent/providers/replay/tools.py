"""Tools in a replay that is not to run them: their results are played too, out of the requests that followed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from nbagent.core.messages import FunctionCall, ToolOutcome
from nbagent.core.request_fingerprint import as_text
from nbagent.core.run import Tools
from nbagent.errors import ReplayError
from nbagent.providers.replay.file import Recorded


class PlayedTools:
    """The tools of one run. The calls of an answer that was played get the results that were recorded for them.

    `played` gives the exchange that was played last, None where the model itself was asked: then tools run for real.
    `recorded` are all exchanges of the recording. Raises ReplayError where there is no result.
    """

    def __init__(self, inner: Tools, played: Callable[[], Recorded | None], recorded: Sequence[Recorded]) -> None:
        self._inner, self._played, self._recorded = inner, played, recorded
        #: The exchange whose calls are answered, and the results of them that are left.
        self._of: Recorded | None = None
        self._left: list[tuple[str, dict[str, Any]]] = []

    def list_functions(self) -> list[dict[str, Any]]:
        """What is offered to the model: a request is known by it."""
        return self._inner.list_functions()

    def is_parallel(self, name: str) -> bool:
        """As ever."""
        return self._inner.is_parallel(name)

    async def run(self, call: FunctionCall) -> ToolOutcome:
        """The recorded result; the function's own where the model was asked for real."""
        exchange = self._played()
        if exchange is None:
            return await self._inner.run(call)
        if exchange is not self._of:
            self._of, self._left = exchange, results_after(exchange, self._recorded)
        wanted = _called(call.to_dict())
        for place, (called, message) in enumerate(self._left):
            if called == wanted:
                del self._left[place]
                return _outcome(call, message)
        raise ReplayError(
            f"the recording has no result of {wanted}: what was asked next is not in it. Let the tools run, "
            "nbagent.replay(path, run_tools=True), or record anew with nbagent.record(path)"
        )


def results_after(exchange: Recorded, recorded: Sequence[Recorded]) -> list[tuple[str, dict[str, Any]]]:
    """The results of an answer's calls, each with its call, as the next request of the same conversation tells them.

    Others may have asked the same, and their tools returned something else: the next request of the same model counts.
    """
    asked = exchange.request["messages"]
    calls = [_called(call) for call in (exchange.response or {}).get("function_calls", ())]
    for later in _nearest(exchange, recorded):
        messages = later.request["messages"]
        answer = messages[len(asked)] if len(messages) > len(asked) and messages[: len(asked)] == asked else {}
        made = answer.get("tool_calls") or ()
        if made and [_called(call) for call in made] == calls:
            results = {each.get("tool_call_id"): each for each in messages[len(asked) + 1 :] if each["role"] == "tool"}
            return [(_called(call), results[call["id"]]) for call in made if call["id"] in results]
    return []


def _nearest(exchange: Recorded, recorded: Sequence[Recorded]) -> list[Recorded]:
    """All exchanges, those of the same model first, and of these those that came after it."""
    place = next((number for number, other in enumerate(recorded) if other is exchange), -1)
    following = [*recorded[place + 1 :], *recorded[: place + 1]]
    who = (exchange.vendor, exchange.model)
    return sorted(following, key=lambda other: (other.vendor, other.model) != who)


def _called(call: dict[str, Any]) -> str:
    return f"{call['name']}({as_text(call['arguments'])})"


def _outcome(call: FunctionCall, message: dict[str, Any]) -> ToolOutcome:
    content = message["content"]
    if not isinstance(content, str) and any(str(part.get("data", "")).startswith("sha256:") for part in content):
        raise ReplayError(f"{call.name} gave an image, of which a recording keeps a hash alone: let the tools run")
    return ToolOutcome(
        call,
        content,
        value=content,
        is_error=bool(message.get("is_error")),
        started=time.time(),
        result_chars=len(content) if isinstance(content, str) else 0,
    )
