"""How a request differs from recorded ones, for the error that tells that it has no recorded answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import SequenceMatcher, unified_diff
from itertools import islice, takewhile
from typing import Any

from nbagent.core.json_text import json_text
from nbagent.core.messages import well_formed
from nbagent.providers.replay.fingerprint import Fingerprint

#: The most lines of a difference, and the most characters of one line.
MAX_LINES, LINE_WIDTH = 24, 110
#: Only so many lines of a request are compared, and so many equally similar requests.
COMPARED_LINES, CANDIDATES = 200, 5


def nearest(request: Fingerprint, recorded: Sequence[Fingerprint]) -> Fingerprint:
    """The most similar recorded request: it shares most messages, tools and options; among several, most words."""
    texts: dict[int, str] = {}  # of messages by their `id()`: requests share them

    def units(of: Fingerprint) -> set[str]:
        for message in of.messages:
            if id(message) not in texts:
                texts[id(message)] = json_text(message)
        return {texts[id(message)] for message in of.messages} | {json_text([of.functions, of.options])}

    wanted = units(request)

    def shared(other: Fingerprint) -> float:
        others = units(other)
        return len(wanted & others) / (len(wanted) + len(others))

    ranks = [shared(other) for other in recorded]
    candidates = [other for rank, other in zip(ranks, recorded, strict=True) if rank == max(ranks)]
    return max(candidates[:CANDIDATES], key=lambda other: _similarity(*_different_lines(other, request)))


def difference(recorded: Fingerprint, request: Fingerprint) -> str:
    """A short diff from a recorded request to this one."""
    lines = _different_lines(recorded, request)
    diff = list(unified_diff(*lines, "recorded", "asked now", n=1, lineterm=""))
    more = [f"… {len(diff) - MAX_LINES} more lines"] if len(diff) > MAX_LINES else []
    return well_formed("\n".join(diff[:MAX_LINES] + more))


def differs_in_results_only(recorded: Fingerprint, request: Fingerprint) -> bool:
    """Whether the requests are the same but for what tools returned."""
    return _without_results(recorded) == _without_results(request)


def _without_results(request: Fingerprint) -> tuple[Any, ...]:
    left_out = {"tool": ("content", "is_error")}
    messages = [
        {key: value for key, value in message.items() if key not in left_out.get(message["role"], ())}
        for message in request.messages
    ]
    return messages, request.functions, request.options


def _similarity(lines: list[str], others: list[str]) -> tuple[float, float]:
    by_lines = SequenceMatcher(None, lines, others, autojunk=False).ratio()
    return by_lines, SequenceMatcher(None, "".join(lines), "".join(others), autojunk=False).quick_ratio()


def _different_lines(recorded: Fingerprint, request: Fingerprint) -> tuple[list[str], list[str]]:
    """Both requests as lines, without most of what they have in common at their begin and end."""
    parts, others = _parts(recorded), _parts(request)
    start = max(0, _in_common(parts, others) - 1)
    end = max(0, min(_in_common(parts[::-1], others[::-1]), min(len(parts), len(others)) - start) - 1)
    return _lines(parts[start : len(parts) - end]), _lines(others[start : len(others) - end])


def _parts(request: Fingerprint) -> list[tuple[str, Any]]:
    parts = [("message", message) for message in request.messages]
    parts += [("tool", function) for function in request.functions]
    return parts + [("option", option) for option in request.options.items()]


def _in_common(parts: list[tuple[str, Any]], others: list[tuple[str, Any]]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(parts, others, strict=False)))


def _lines(parts: list[tuple[str, Any]]) -> list[str]:
    """The first lines of a request's parts, to read and to compare."""
    lines = (line for kind, part in parts for text in _TEXTS[kind](part) for line in _wrapped(text))
    return list(islice(lines, COMPARED_LINES))


def _message_texts(message: dict[str, Any]) -> list[str]:
    role, content, calls = message["role"], message["content"], message.get("tool_calls") or ()
    text = content if isinstance(content, str) else json_text(content)
    said = [f"{role}{' ' + message['name'] if message.get('name') else ''}: {text}"] if text or not calls else []
    return said + [f"{role} calls {call['name']}({json_text(call['arguments'])})" for call in calls]


def _tool_texts(function: dict[str, Any]) -> list[str]:
    return [
        f"tool {function['name']}: {function['description']}",
        f"tool {function['name']} takes {json_text(function['parameters'])}",
    ]


_TEXTS: dict[str, Callable[[Any], list[str]]] = {
    "message": _message_texts,
    "tool": _tool_texts,
    "option": lambda option: [f"option {option[0]}: {json_text(option[1])}"],
}


def _wrapped(text: str) -> list[str]:
    return [
        line[start : start + LINE_WIDTH]
        for line in text.split("\n")
        for start in range(0, max(len(line), 1), LINE_WIDTH)
    ]
