"""A preview of the request that a message would lead to, built by the code that builds real requests."""

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

    `messages` begin with the system message; `functions` are the tools on offer. `options` holds the rest of the
    request, such as `thinking_level` and `temperature`. `tokens` is the vendor's count of the conversation so far, plus
    an estimate of what is new. `notes` say how the history would be changed first.
    """

    vendor: str
    model: str
    messages: Sequence[LLMMessage]
    functions: Sequence[Mapping[str, Any]]
    options: Mapping[str, Any]
    tokens: int
    notes: Sequence[str]


def preview(run: Run, message: Any) -> Preview:
    """The first request of a run, whose context is a copy, for this message."""
    context, provider = run.context, run.provider
    context.add_input(message)
    notes = []
    if context.strategy == "summarise" and (oldest := context.messages_to_drop()):
        notes.append(f"the model would summarise {len(oldest)} old messages in a request of its own")
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
    """A rough count of the tokens that describe one function to the model."""
    return len(json.dumps(function, default=str)) // CHARS_PER_TOKEN
