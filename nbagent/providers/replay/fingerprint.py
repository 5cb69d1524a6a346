"""Comparing requests to models: the fingerprint of a request, its hash, and how two requests differ.

A fingerprint holds what is said and what is offered, and nothing that changes from run to run. Tool calls have numbers
instead of ids, images are replaced by their hashes, and the data that vendors want returned unread is left out. So a
request has the same fingerprint in each run, with each vendor, with or without a key.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher, unified_diff
from typing import Any

from nbagent.core.json_text import json_text
from nbagent.core.messages import Content, LLMMessage

Fingerprint = dict[str, Any]

#: The options of a request that can change its answer. Other options are left out: they may hold anything, even a key.
OPTIONS = ("temperature", "max_tokens", "thinking", "tool_choice", "top_p", "seed", "stop")

#: The most lines of a difference, and the most characters of one line.
MAX_LINES, LINE_WIDTH = 24, 110


def request_fingerprint(
    messages: Sequence[LLMMessage], functions: Iterable[Mapping[str, Any]] | None, options: Mapping[str, Any]
) -> Fingerprint:
    """The request as JSON data.

    >>> request_fingerprint([LLMMessage("user", "Hi")], None, {"temperature": None})
    {'messages': [{'role': 'user', 'content': 'Hi'}], 'functions': [], 'options': {}}
    """
    call_numbers: dict[str | None, int] = {}
    for message in messages:
        for call in message.tool_calls or ():
            call_numbers.setdefault(call.id, len(call_numbers) + 1)
    fingerprint = {
        "messages": [_message(message, call_numbers) for message in messages],
        "functions": [
            {name: each.get(name) for name in ("name", "description", "parameters")} for each in functions or ()
        ],
        "options": {name: options[name] for name in OPTIONS if options.get(name) is not None},
    }
    plain: Fingerprint = json.loads(json_text(fingerprint))
    return plain


def fingerprint_hash(request: Fingerprint) -> str:
    """A short text that is equal for equal requests."""
    return hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()


def difference(request: Fingerprint, recorded: Sequence[Fingerprint]) -> str:
    """A short diff from the most similar recorded request to this one."""
    lines = _lines(request)

    def similarity(other: Fingerprint) -> tuple[float, float]:
        others = _lines(other)
        by_lines = SequenceMatcher(None, others, lines, autojunk=False).ratio()
        return by_lines, SequenceMatcher(None, "".join(others), "".join(lines), autojunk=False).quick_ratio()

    nearest = max(recorded, key=similarity)
    diff = list(unified_diff(_lines(nearest), lines, "recorded", "asked now", n=1, lineterm=""))
    more = [f"… {len(diff) - MAX_LINES} more lines"] if len(diff) > MAX_LINES else []
    return "\n".join(diff[:MAX_LINES] + more)


def _message(message: LLMMessage, call_numbers: Mapping[str | None, int]) -> dict[str, Any]:
    data: dict[str, Any] = {"role": message.role, "content": _content(message.content)}
    if message.name:
        data["name"] = message.name
    if message.tool_calls:
        data["tool_calls"] = [{**call.to_dict(), "id": call_numbers[call.id]} for call in message.tool_calls]
    if message.tool_call_id:
        data["tool_call_id"] = call_numbers.get(message.tool_call_id)
    return {**data, "is_error": True} if message.is_error else data


def _content(content: Content) -> Any:
    """The content, image data replaced by its hash."""
    if isinstance(content, str):
        return content
    return [
        {**part, "data": f"sha256:{hashlib.sha256(data.encode()).hexdigest()}"}
        if isinstance(data := part.get("data"), str)
        else dict(part)
        for part in content
    ]


def _lines(request: Fingerprint) -> list[str]:
    """The request as lines of text, to read and to compare."""
    lines = []
    for message in request["messages"]:
        role, content, calls = message["role"], message["content"], message.get("tool_calls") or ()
        text = content if isinstance(content, str) else json_text(content)
        if text or not calls:
            lines += _wrapped(f"{role}{' ' + message['name'] if message.get('name') else ''}: {text}")
        for call in calls:
            lines += _wrapped(f"{role} calls {call['name']}({json_text(call['arguments'])})")
    for function in request["functions"]:
        lines += _wrapped(f"tool {function['name']}: {function['description']}")
        lines += _wrapped(f"tool {function['name']} takes {json_text(function['parameters'])}")
    return lines + [f"option {name}: {json_text(value)}" for name, value in request["options"].items()]


def _wrapped(text: str) -> list[str]:
    return [
        line[start : start + LINE_WIDTH]
        for line in text.split("\n")
        for start in range(0, max(len(line), 1), LINE_WIDTH)
    ]
