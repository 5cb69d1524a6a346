"""Shows a dry run (`--dry-run`): the messages, tools and options that a cell would send."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from nbagent.agent.agent import Agent
from nbagent.core.content.images import content_as_text
from nbagent.core.counting import estimate_function_tokens, estimated_tokens
from nbagent.core.history.history import CHARS_PER_TOKEN, estimate_tokens
from nbagent.core.history.preview import Preview
from nbagent.core.messages import LLMMessage, well_formed
from nbagent.core.render import markdown as render
from nbagent.text import shortened

TITLE = "Dry run: nothing was sent, nothing has changed."
#: Characters of a folded message that are shown next to its role.
SUMMARY_CHARS = 200
#: Smaller costs, in US dollars, are not shown.
MIN_COST = 0.0001
_NOTHING: Mapping[str, int] = {}


def dry_run_bundle(preview: Preview, added: Mapping[str, int] = _NOTHING) -> dict[str, str]:
    """The preview as a mimebundle. `added` maps sources to their tokens, as returned by `added_by_toolsets`."""
    return {"text/html": _as_html(preview, added), "text/plain": _as_text(preview, added)}


def added_by_toolsets(agent: Agent, preview: Preview) -> dict[str, int]:
    """The tokens that the instructions and tools of skills and MCP servers add to a request, by source."""
    offered = {function["name"]: function for function in preview.functions}
    added: dict[str, int] = {}
    for toolset in agent.toolsets if offered else ():
        tools = [tool for name in toolset.tools.names() if (tool := toolset.tools.get_function(name)) is not None]
        sources = [tool.source if isinstance(tool.source, str) else "skill:" for tool in tools]
        label = next((re.sub("^skill:.*", "skills", source) for source in sources if source), type(toolset).__name__)
        tokens = sum(estimate_function_tokens(offered[tool.name]) for tool in tools if tool.name in offered)
        if tokens:
            added[label] = added.get(label, 0) + tokens + len(toolset.instructions()) // CHARS_PER_TOKEN
    return added


def _as_html(preview: Preview, added: Mapping[str, int]) -> str:
    """Messages and tools, folded, each with its tokens, and a footer with their sum."""
    notes = "".join(map(render.note_html, [TITLE, *_notes(preview)]))
    blocks = []
    for message in preview.messages:
        text = _message_text(message)
        body = f"<pre>{render.escape(_shortened(text))}</pre>"
        blocks.append(_block(_source(message), text, _about(estimate_tokens(message)), body))
    for function in preview.functions:
        body = f"<pre>{render.escape(_shortened(function['description']))}</pre>"
        body += render.labelled_html("parameters", render.readable_json(function["parameters"]))
        blocks.append(_block("tool", _signature(function), _about(estimate_function_tokens(function)), body))
    if difference := preview.tokens - estimated_tokens(preview.messages, preview.functions):
        side = f"{'+' if difference > 0 else '-'} {abs(difference):,} tokens"
        blocks.append(_block("count", "the provider's count so far, compared with the estimates above", side, ""))
    if preview.options:
        options = f"<pre>{render.escape(json.dumps(preview.options, indent=2, default=str))}</pre>"
        blocks.append(render.details_html('<span class="nbagent-quiet">Options</span>', "", options))
    return render.output_html(f"{notes}{''.join(blocks)}{render.footer_html(_footer(preview, added))}")


def _as_text(preview: Preview, added: Mapping[str, int]) -> str:
    messages = [f"{_source(message)}: {_shortened(_message_text(message))}" for message in preview.messages]
    tools = [f"tool: {_signature(function)}" for function in preview.functions]
    footer = f"[{' · '.join(_footer(preview, added))}]"
    return well_formed("\n".join([TITLE, *_notes(preview), *messages, *tools, footer]))


def _notes(preview: Preview) -> list[str]:
    return [f"Before sending, {note}." for note in preview.notes]


def _block(label: str, text: str, side: str, body: str) -> str:
    line = shortened(" ".join(text.split()), SUMMARY_CHARS)
    summary = f'<span class="nbagent-quiet">{render.escape(label)}</span><code>{render.escape(line)}</code>'
    return render.details_html(summary, side, body)


def _source(message: LLMMessage) -> str:
    return f"result of {message.name or 'a tool'}" if message.role == "tool" else message.role


def _message_text(message: LLMMessage) -> str:
    calls = [f"▸ {render.format_call(call.name, call.arguments)}" for call in message.tool_calls or ()]
    return "\n".join(filter(None, [content_as_text(message.content), *calls]))


def _shortened(text: str) -> str:
    return render.shortened_with_note(text, see="")


def _signature(function: Mapping[str, Any]) -> str:
    return f"{function['name']}({', '.join((function['parameters'] or {}).get('properties', {}))})"


def _about(tokens: int) -> str:
    return f"≈ {tokens:,} tokens"


def _footer(preview: Preview, added: Mapping[str, int]) -> list[str]:
    """Model, options, numbers of messages, tools and tokens, and the input's cost, without the answer."""
    simple = {name: value for name, value in preview.options.items() if isinstance(value, str | int | float)}
    options = [f"{name.replace('_', ' ')} {value}" for name, value in simple.items()]
    counts = [(len(preview.messages), "message"), (len(preview.functions), "tool")]
    items = [preview.model, *options, *(f"{number} {thing}{'' if number == 1 else 's'}" for number, thing in counts)]
    return [
        *items,
        _about(preview.tokens),
        *(f"{label} add {_about(tokens)}" for label, tokens in added.items()),
        *([f"≈ ${preview.cost:.4f} to read them"] if (preview.cost or 0) >= MIN_COST else []),
    ]
