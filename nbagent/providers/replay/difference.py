"""Shows how a request differs from recorded ones, for the error about a missing answer."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import unified_diff
from typing import Any

from nbagent.core.json_text import json_text
from nbagent.core.messages import well_formed
from nbagent.providers.replay.fingerprint import Fingerprint

#: The most lines of a difference, and the most characters of one line.
MAX_LINES, LINE_WIDTH = 24, 110


def nearest(request: Fingerprint, recorded: Sequence[Fingerprint]) -> Fingerprint:
    """The most similar recorded request, judging by the lines in common."""
    wanted = set(_lines(request))

    def shared(other: Fingerprint) -> float:
        lines = set(_lines(other))
        return len(wanted & lines) / (len(wanted) + len(lines))

    return max(recorded, key=shared)


def difference(recorded: Fingerprint, request: Fingerprint) -> str:
    """A short diff from a recorded request to this one."""
    diff = list(unified_diff(_lines(recorded), _lines(request), "recorded", "asked now", n=1, lineterm=""))
    more = [f"… {len(diff) - MAX_LINES} more lines"] if len(diff) > MAX_LINES else []
    return well_formed("\n".join(diff[:MAX_LINES] + more))


def _lines(request: Fingerprint) -> list[str]:
    """A request as lines to compare and display."""
    texts = [text for message in request.messages for text in _message_texts(message)]
    for tool in request.functions:
        texts.append(f"tool {tool['name']}: {tool['description']}")
        texts.append(f"tool {tool['name']} takes {json_text(tool['parameters'])}")
    texts += [f"option {name}: {json_text(value)}" for name, value in request.options.items()]
    lines = "\n".join(texts).split("\n")
    return [line[start : start + LINE_WIDTH] for line in lines for start in range(0, max(len(line), 1), LINE_WIDTH)]


def _message_texts(message: dict[str, Any]) -> list[str]:
    role, content, calls = message["role"], message["content"], message.get("tool_calls") or ()
    text = content if isinstance(content, str) else json_text(content)
    lines = [f"{role}{' ' + message['name'] if message.get('name') else ''}: {text}"] if text or not calls else []
    return lines + [f"{role} calls {call['name']}({json_text(call['arguments'])})" for call in calls]
