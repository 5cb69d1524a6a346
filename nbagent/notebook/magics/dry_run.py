"""What `--dry-run` shows: the messages and tools that would be sent, and what else would be asked for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from nbagent.core.content.images import content_as_text
from nbagent.core.history.context import estimate_tokens
from nbagent.core.history.preview import Preview, estimate_function_tokens
from nbagent.core.messages import LLMMessage, Usage, well_formed
from nbagent.core.render import markdown as render
from nbagent.pricing import price

TITLE = "Dry run: nothing was sent, nothing has changed."
#: Characters of a message beside its role.
LINE = 200
#: US dollars below which a cost is not worth a word.
LEAST_COST = 0.0001


def bundle(preview: Preview) -> dict[str, str]:
    """The preview as a mimebundle."""
    return {"text/html": as_html(preview), "text/plain": as_text(preview)}


def as_html(preview: Preview) -> str:
    """Messages and tools collapsed, each with its tokens; a footer with the sum."""
    notes = "".join(f'<div class="nbagent-quiet">{render.escape(text)}</div>' for text in [TITLE, *_notes(preview)])
    blocks = [*map(_message_html, preview.messages), *map(_function_html, preview.functions)]
    if preview.options:
        options = f"<pre>{render.escape(json.dumps(preview.options, indent=2, default=str))}</pre>"
        blocks.append(render.details_html('<span class="nbagent-quiet">Options</span>', "", options))
    spans = "".join(f"<span>{render.escape(item)}</span>" for item in _facts(preview))
    return render.output_html(f'{notes}{"".join(blocks)}<div class="nbagent-foot">{spans}</div>')


def as_text(preview: Preview) -> str:
    """The same for terminals and for hosts without HTML."""
    messages = [f"{_who(message)}: {_cut(_said(message))}" for message in preview.messages]
    tools = [f"tool: {_signature(function)}" for function in preview.functions]
    facts = f"[{' · '.join(_facts(preview))}]"
    return well_formed("\n".join([TITLE, *_notes(preview), *messages, *tools, facts]))


def _notes(preview: Preview) -> list[str]:
    return [f"Before it is sent: {note}." for note in preview.notes]


def _message_html(message: LLMMessage) -> str:
    text = _said(message)
    body = f"<pre>{render.escape(_cut(text))}</pre>"
    return render.details_html(_summary(_who(message), text), _about(estimate_tokens(message)), body)


def _function_html(function: Mapping[str, Any]) -> str:
    body = f"<pre>{render.escape(_cut(function['description']))}</pre>"
    body += render.labelled_html("parameters", render.readable_json(function["parameters"]))
    return render.details_html(_summary("tool", _signature(function)), _about(estimate_function_tokens(function)), body)


def _summary(what: str, text: str) -> str:
    line = " ".join(text.split())[:LINE]
    return f'<span class="nbagent-quiet">{render.escape(what)}</span><code>{render.escape(line)}</code>'


def _who(message: LLMMessage) -> str:
    return f"result of {message.name or 'a tool'}" if message.role == "tool" else message.role


def _said(message: LLMMessage) -> str:
    calls = [f"▸ {render.format_call(call.name, call.arguments)}" for call in message.tool_calls or ()]
    return "\n".join(filter(None, [content_as_text(message.content), *calls]))


def _cut(text: str) -> str:
    return render.shortened_with_note(text, see="")


def _signature(function: Mapping[str, Any]) -> str:
    return f"{function['name']}({', '.join((function['parameters'] or {}).get('properties', {}))})"


def _about(tokens: int) -> str:
    return f"≈ {tokens:,} tokens"


def _facts(preview: Preview) -> list[str]:
    """The footer: model, options, how much, and what that much costs before the answer."""
    plain = {name: value for name, value in preview.options.items() if isinstance(value, str | int | float)}
    options = [f"{name.replace('_', ' ')} {value}" for name, value in plain.items()]
    counts = [(len(preview.messages), "message"), (len(preview.functions), "tool")]
    facts = [preview.model, *options, *(f"{number} {thing}{'' if number == 1 else 's'}" for number, thing in counts)]
    cost = price(Usage(preview.tokens), preview.model, preview.vendor)
    return [*facts, _about(preview.tokens), *([f"≈ ${cost:.4f} to read them"] if (cost or 0) >= LEAST_COST else [])]
