"""A request to a model in a form by which two can be compared: what is said and offered, nothing that is random.

Tool calls are numbered in place of their ids, an image stands there by its hash, and what vendors want back unread is
left out. So a request is the same in each run, with each vendor, with or without a key.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher, unified_diff
from typing import Any

from nbagent.core.messages import Content, LLMMessage, well_formed

Request = dict[str, Any]

#: The options of a request that decide about its answer. Others may hold anything, a key too, and are left out.
OPTIONS = ("temperature", "max_tokens", "thinking", "tool_choice", "top_p", "seed", "stop")

#: Lines of a difference, and characters of one line.
MOST_LINES, LINE_WIDTH = 24, 110


def request_form(
    messages: Sequence[LLMMessage], functions: Iterable[Mapping[str, Any]] | None, options: Mapping[str, Any]
) -> Request:
    """The request as JSON data.

    >>> request_form([LLMMessage("user", "Hi")], None, {"temperature": None})
    {'messages': [{'role': 'user', 'content': 'Hi'}], 'functions': [], 'options': {}}
    """
    numbers: dict[str | None, int] = {}
    for message in messages:
        for call in message.tool_calls or ():
            numbers.setdefault(call.id, len(numbers) + 1)
    form = {
        "messages": [_message(message, numbers) for message in messages],
        "functions": [
            {name: each.get(name) for name in ("name", "description", "parameters")} for each in functions or ()
        ],
        "options": {name: options[name] for name in OPTIONS if options.get(name) is not None},
    }
    plain: Request = json.loads(as_text(form))
    return plain


def as_text(value: Any) -> str:
    """JSON text that is the same for equal values; what JSON does not know becomes its type's name."""
    return well_formed(json.dumps(value, ensure_ascii=False, sort_keys=False, default=lambda odd: type(odd).__name__))


def request_key(request: Request) -> str:
    """A short text that is equal for equal requests."""
    text = json.dumps(request, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def difference(asked: Request, recorded: Sequence[Request]) -> str:
    """What the nearest of some recorded requests would have to change to be the one that is asked, as a short diff."""
    lines = _lines(asked)

    def nearness(other: Request) -> tuple[float, float]:
        theirs = _lines(other)
        in_lines = SequenceMatcher(None, theirs, lines, autojunk=False).ratio()
        return in_lines, SequenceMatcher(None, "".join(theirs), "".join(lines), autojunk=False).quick_ratio()

    nearest = max(recorded, key=nearness)
    found = list(unified_diff(_lines(nearest), lines, "recorded", "asked now", n=1, lineterm=""))
    more = [f"… {len(found) - MOST_LINES} more lines"] if len(found) > MOST_LINES else []
    return "\n".join(found[:MOST_LINES] + more)


def _message(message: LLMMessage, numbers: Mapping[str | None, int]) -> dict[str, Any]:
    form: dict[str, Any] = {"role": message.role, "content": _content(message.content)}
    if message.name:
        form["name"] = message.name
    if message.tool_calls:
        form["tool_calls"] = [{**call.to_dict(), "id": numbers[call.id]} for call in message.tool_calls]
    if message.tool_call_id:
        form["tool_call_id"] = numbers.get(message.tool_call_id)
    return {**form, "is_error": True} if message.is_error else form


def _content(content: Content) -> Any:
    if isinstance(content, str):
        return content
    return [_part(part) for part in content]


def _part(part: Mapping[str, Any]) -> dict[str, Any]:
    """A part, long data in it by its hash."""
    data = part.get("data")
    if not isinstance(data, str):
        return dict(part)
    return {**part, "data": f"sha256:{hashlib.sha256(data.encode()).hexdigest()}"}


def _lines(request: Request) -> list[str]:
    """A request as lines to read and to compare."""
    lines = []
    for message in request["messages"]:
        content = message["content"]
        said = content if isinstance(content, str) else as_text(content)
        if said or not message.get("tool_calls"):
            lines += _wrapped(f"{message['role']}{' ' + message['name'] if message.get('name') else ''}: {said}")
        for call in message.get("tool_calls") or ():
            lines += _wrapped(f"{message['role']} calls {call['name']}({as_text(call['arguments'])})")
    for function in request["functions"]:
        lines += _wrapped(f"tool {function['name']}: {function['description']}")
        lines += _wrapped(f"tool {function['name']} takes {as_text(function['parameters'])}")
    return lines + [f"option {name}: {as_text(value)}" for name, value in request["options"].items()]


def _wrapped(text: str) -> list[str]:
    return [
        line[start : start + LINE_WIDTH]
        for line in text.split("\n")
        for start in range(0, max(len(line), 1), LINE_WIDTH)
    ]
