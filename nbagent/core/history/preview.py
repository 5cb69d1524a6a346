"""What a message would send: made by the code that makes a real request, on a copy of the history."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nbagent.core.history.context import CHARS_PER_TOKEN
from nbagent.core.messages import LLMMessage
from nbagent.core.run import Run


@dataclass(frozen=True, slots=True)
class Preview:
    """The first request that a message would lead to.

    `messages` begin with the system message; `functions` are the tools on offer. `options` holds what else would be
    asked for, such as `thinking_level` and the `temperature`. `tokens` is the vendor's count of the conversation so
    far, and an estimate of the rest. `notes` say what would be done to the history before.
    """

    vendor: str
    model: str
    messages: Sequence[LLMMessage]
    functions: Sequence[Mapping[str, Any]]
    options: Mapping[str, Any]
    tokens: int
    notes: Sequence[str]


def preview(run: Run, message: Any) -> Preview:
    """What a run, whose context is a copy, would send first for this message."""
    context, provider = run.context, run.provider
    context.add_input(message)
    notes = []
    if context.strategy == "summarise" and (oldest := context.messages_to_drop()):
        notes.append(f"the model would be asked to sum up {len(oldest)} old messages first")
        context.drop(oldest)
    counted = context.has_vendor_count
    notes.append(context.prepare())
    request = run.next_request()
    tokens = context.get_tokens() + len(run.instructions) // CHARS_PER_TOKEN
    if not counted:
        tokens += sum(map(estimate_function_tokens, request.tools or ()))
    effective = {**provider.resolve(request).effective_options}
    options = {**effective.pop("params", {}), **effective}
    return Preview(
        vendor=provider.vendor,
        model=provider.model_name,
        messages=request.messages,
        functions=request.tools or [],
        options={name: value for name, value in options.items() if value is not None},
        tokens=tokens,
        notes=[note for note in notes if note],
    )


def estimate_function_tokens(function: Mapping[str, Any]) -> int:
    """A rough count of what describes one function to the model."""
    return len(json.dumps(function, default=str)) // CHARS_PER_TOKEN
