"""The names of OpenTelemetry's attributes and metrics, as tables.

The names follow the semantic conventions for generative AI, https://opentelemetry.io/docs/specs/semconv/gen-ai/,
version 1.41. Most other names start with `nbagent.`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from nbagent.core.content.images import content_as_text
from nbagent.core.json_text import json_text
from nbagent.core.messages import LLMMessage, Usage

#: Providers that the conventions name differently.
PROVIDERS = {"claude": "anthropic", "gemini": "gcp.gemini"}
#: Attributes of a request -> keys in the metadata of `turn_started`.
REQUEST = {
    "gen_ai.request.model": "model",
    "gen_ai.request.stream": "stream",
    "server.address": "base_url_host",
    "server.port": "base_url_port",
    "nbagent.call_id": "call_id",
    "nbagent.thinking_level": "thinking_level",
}
#: Attributes of a request -> options in `params`.
OPTIONS = {"gen_ai.request.stop_sequences": "stop"} | {
    f"gen_ai.request.{name}": name for name in ("temperature", "max_tokens", "top_p", "seed")
}
#: Attributes of an answer -> keys in the response's metadata.
RESPONSE = {"gen_ai.response.id": "response_id", "gen_ai.response.model": "model"}
#: Token counts, without a prefix -> fields of `Usage`.
USAGE = {
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "cache_read.input_tokens": "cache_read_tokens",
    "cache_creation.input_tokens": "cache_write_tokens",
    "reasoning.output_tokens": "reasoning_tokens",
}
#: The prefixes for an answer, and for all answers of a run. Backends add up the first over all spans.
ANSWER, TOTAL = "gen_ai.usage.", "gen_ai.aggregated_usage."
#: US dollars of an answer. The conventions have no name for them; the first is Langfuse's, the second Logfire's.
COST = ("gen_ai.usage.cost", "operation.cost")
#: Finish reasons that the conventions spell differently.
FINISH_REASONS = {"tool_calls": "tool_call"}
#: Attributes of a tool call -> keys in the metadata of `tool_started`.
TOOL = {"gen_ai.tool.call.id": "wire_id", "nbagent.tool_call_id": "tool_call_id"}
#: Attributes of a run -> keys in the metadata of `run_started`.
RUN = {
    "gen_ai.agent.name": "agent",
    "gen_ai.conversation.id": "conversation_id",
    "user.id": "user",
    "session.id": "session",
    "nbagent.tags": "tags",
    "nbagent.run_id": "run_id",
    "nbagent.source": "source",
    "nbagent.cell_id": "cell_id",
}
#: Attributes of a retry -> keys in the metadata of `retry`.
RETRY = {"error.type": "error", "nbagent.retry.attempt": "attempt", "nbagent.retry.wait_s": "wait_s"}
#: The metrics: name, unit, description, bucket boundaries of the histogram.
TOKENS = (
    "gen_ai.client.token.usage",
    "{token}",
    "Number of input and output tokens used.",
    [4.0**n for n in range(14)],
)
SECONDS = ("gen_ai.client.operation.duration", "s", "GenAI operation duration.", [0.01 * 2**n for n in range(14)])
FIRST_CHUNK = (
    "gen_ai.client.operation.time_to_first_chunk",
    "s",
    "Time to receive the first chunk.",
    [0.01 * 2**n for n in range(14)],
)
#: Attributes of a chat span that its metrics also have.
METRIC_ATTRIBUTES = (
    "gen_ai.operation.name",
    "gen_ai.provider.name",
    "gen_ai.request.model",
    "gen_ai.response.model",
    "server.address",
    "server.port",
    "error.type",
)
Attributes = dict[str, Any]


def attributes_from(names: Mapping[str, str], values: Mapping[str, Any]) -> Attributes:
    """Return the attributes in `names`, one of the tables above. Unknown values are omitted, and so are values of types
    that attributes can't have.
    """
    found = {name: values.get(key) for name, key in names.items()}
    return {name: value for name, value in found.items() if isinstance(value, (str, bool, int, float, list))}


def usage_attributes(prefix: str, usage: Usage) -> Attributes:
    """Return the token counts as attributes. Zeros are omitted, except for input and output tokens."""
    counts = attributes_from(USAGE, usage.to_dict())
    return {prefix + name: count for name, count in counts.items() if count or name in list(USAGE)[:2]}


def finish_reasons(reason: str | None) -> Attributes:
    """Return the finish reason as an attribute, if it is known."""
    return {"gen_ai.response.finish_reasons": [FINISH_REASONS.get(reason, reason)]} if reason else {}


def input_attributes(messages: Iterable[LLMMessage]) -> Attributes:
    """Return the attributes for the input messages of a model or an agent."""
    given = list(messages)
    system = [{"type": "text", "content": message.text} for message in given if message.role == "system"]
    others = [_message_data(message) for message in given if message.role != "system"]
    found = {"gen_ai.input.messages": json_text(others)}
    return {**found, "gen_ai.system_instructions": json_text(system)} if system else found


def tool_attributes(tools: Iterable[Mapping[str, Any]]) -> Attributes:
    """Return the attribute for the definitions of the offered tools."""
    definitions = [{"type": "function", **tool} for tool in tools]
    return {"gen_ai.tool.definitions": json_text(definitions)} if definitions else {}


def output_attributes(message: LLMMessage, finish_reason: str | None, thinking: str | None = None) -> Attributes:
    """Return the attribute for the answer from a model or an agent."""
    reason = finish_reason or ""
    data = _message_data(message) | {"finish_reason": FINISH_REASONS.get(reason, reason)}
    if thinking:
        data["parts"].insert(0, {"type": "reasoning", "content": thinking})
    return {"gen_ai.output.messages": json_text([data])}


def _message_data(message: LLMMessage) -> dict[str, Any]:
    """A message in the form of `gen_ai.input.messages`. A note replaces an image."""
    text = content_as_text(message.content)
    if message.role == "tool":
        return {
            "role": "tool",
            "parts": [{"type": "tool_call_response", "id": message.tool_call_id, "response": text}],
        }
    parts: list[dict[str, Any]] = [{"type": "text", "content": text}] if text else []
    parts += [
        {"type": "tool_call", "id": call.id, "name": call.name, "arguments": call.arguments}
        for call in message.tool_calls or ()
    ]
    return {"role": message.role, "parts": parts}
