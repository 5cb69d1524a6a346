"""Previews the request for a message, using the code that builds real requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nbagent.core.counting import estimated_tokens
from nbagent.core.history.history import CHARS_PER_TOKEN
from nbagent.core.messages import LLMMessage, Usage
from nbagent.core.run import Run


@dataclass(frozen=True, slots=True)
class Preview:
    """The first request that would be sent for a message.

    `messages` start with the system message, and `functions` are the tools on offer. `options` contains the rest of the
    request, such as `thinking_level` and `temperature`. `tokens` is the provider's count of the conversation so far,
    plus an estimate of the new messages. `cost` is the price of these input tokens in US dollars, or None if it is
    unknown. `notes` describe changes that would be made to the history first.
    """

    provider: str
    model: str
    messages: Sequence[LLMMessage]
    functions: Sequence[Mapping[str, Any]]
    options: Mapping[str, Any]
    tokens: int
    cost: float | None
    notes: Sequence[str]


def preview(run: Run, message: Any) -> Preview:
    """Return the first request for a message. The run must have a copy of the history."""
    history, provider = run.history, run.provider
    with history.asking(message, run.replaces, run.branch_at):
        notes = []
        trims = not run.provider_summarises
        if history.strategy != "trim" and trims and (oldest := history.messages_to_drop()):
            notes.append(f"the model would summarise {len(oldest)} old messages in a separate request")
            history.drop(oldest)
        counted = history.has_provider_count
        notes.append(history.prepare(trims))
        request = run.next_request()
        messages, functions = request.all_messages, request.tools or []
        if counted:  # tools included
            tokens = history.get_tokens() + (len(run.instructions) + len(request.reminder)) // CHARS_PER_TOKEN
        else:
            tokens = estimated_tokens(messages, functions)
    effective = provider.resolve(request).effective_options
    options = effective.get("params", {}) | {name: effective.get(name) for name in ("thinking_level", "tool_choice")}
    return Preview(
        provider=provider.provider_name,
        model=provider.model_name,
        messages=messages,
        functions=functions,
        options={name: value for name, value in options.items() if value is not None},
        tokens=tokens,
        cost=run.price(Usage(tokens), provider.model_name, provider),
        notes=[note for note in notes if note],
    )
