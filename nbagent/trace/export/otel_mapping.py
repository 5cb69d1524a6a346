"""What the events of runs are called in OpenTelemetry: the whole mapping, as tables.

The names are those of the semantic conventions for generative AI, https://opentelemetry.io/docs/specs/semconv/gen-ai/,
version 1.41. What the conventions have no name for begins with `nbagent.`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from nbagent.core.content.images import content_as_text
from nbagent.core.json_text import json_text
from nbagent.core.messages import LLMMessage, LLMResponse, Usage

#: Vendors whose name in the conventions is another.
PROVIDERS = {"claude": "anthropic", "gemini": "gcp.gemini"}
#: Of a request: the attribute, and where it is in the metadata of `turn_started`.
REQUEST = {
    "gen_ai.request.model": "model",
    "gen_ai.request.stream": "stream",
    "server.address": "base_url_host",
    "nbagent.call_id": "call_id",
    "nbagent.thinking_level": "thinking_level",
}
#: Of a request: the attribute, and the option in `params`.
OPTIONS = {"gen_ai.request.stop_sequences": "stop"} | {
    f"gen_ai.request.{name}": name
    for name in ("temperature", "max_tokens", "top_p", "top_k", "seed", "frequency_penalty", "presence_penalty")
}
#: Of an answer: the attribute, and where it is in the response's metadata.
RESPONSE = {"gen_ai.response.id": "response_id", "gen_ai.response.model": "model"}
#: Of an answer or a run: the attribute, and the field of `Usage`.
USAGE = {
    "gen_ai.usage.input_tokens": "input_tokens",
    "gen_ai.usage.output_tokens": "output_tokens",
    "gen_ai.usage.cache_read.input_tokens": "cache_read_tokens",
    "gen_ai.usage.cache_creation.input_tokens": "cache_write_tokens",
    "gen_ai.usage.reasoning.output_tokens": "reasoning_tokens",
}
#: Of a tool's run: the attribute, and where it is in the metadata of `tool_started`.
TOOL = {"gen_ai.tool.call.id": "wire_id", "nbagent.tool_call_id": "tool_call_id"}
#: Of a run: the attribute, and where it is in the metadata of `run_started`.
RUN = {
    "gen_ai.agent.name": "agent",
    "nbagent.run_id": "run_id",
    "nbagent.source": "source",
    "nbagent.cell_id": "cell_id",
}
#: Of a retry: the attribute, and where it is in the metadata of `retry`.
RETRY = {"error.type": "error", "nbagent.retry.attempt": "attempt", "nbagent.retry.wait_s": "wait_s"}
#: The metrics: unit, description, boundaries of the histogram.
TOKENS = (
    "gen_ai.client.token.usage",
    "{token}",
    "Number of input and output tokens used.",
    [4.0**n for n in range(14)],
)
SECONDS = ("gen_ai.client.operation.duration", "s", "GenAI operation duration.", [0.01 * 2**n for n in range(14)])
#: Attributes of a chat span that its metrics have too.
MEASURED_BY = (
    "gen_ai.operation.name",
    "gen_ai.provider.name",
    "gen_ai.request.model",
    "gen_ai.response.model",
    "server.address",
    "error.type",
)
Attributes = dict[str, Any]


def picked(names: Mapping[str, str], facts: Mapping[str, Any]) -> Attributes:
    """The attributes of one of the tables, as far as they are known and of a kind that attributes can have."""
    found = {name: facts.get(key) for name, key in names.items()}
    return {name: value for name, value in found.items() if isinstance(value, (str, bool, int, float, list))}


def used(usage: Usage) -> Attributes:
    """Kinds of tokens that there were none of are left out, but for input and output."""
    counts = picked(USAGE, usage.to_dict())
    return {name: count for name, count in counts.items() if count or name in list(USAGE)[:2]}


def message_form(message: LLMMessage) -> dict[str, Any]:
    """A message in the form of `gen_ai.input.messages`. An image stands there as a note."""
    text = content_as_text(message.content)
    if message.role == "tool":
        answer = {"type": "tool_call_response", "id": message.tool_call_id, "response": text}
        return {"role": "tool", "parts": [answer]}
    texts: list[dict[str, Any]] = [{"type": "text", "content": text}] if text else []
    calls = [
        {"type": "tool_call", "id": call.id, "name": call.name, "arguments": call.arguments}
        for call in message.tool_calls or ()
    ]
    return {"role": message.role, "parts": texts + calls}


def answer_form(response: LLMResponse) -> list[dict[str, Any]]:
    """An answer in the form of `gen_ai.output.messages`."""
    message = message_form(LLMMessage("assistant", response.message_content, tool_calls=response.function_calls))
    if thinking := (response.metadata or {}).get("thinking"):
        message["parts"].insert(0, {"type": "reasoning", "content": thinking})
    return [{**message, "finish_reason": response.finish_reason or ""}]


def said_to(messages: Iterable[LLMMessage]) -> Attributes:
    """What a model or an agent was told."""
    told = list(messages)
    system = [{"type": "text", "content": message.text} for message in told if message.role == "system"]
    said = {"gen_ai.input.messages": json_text([message_form(message) for message in told if message.role != "system"])}
    return {**said, "gen_ai.system_instructions": json_text(system)} if system else said
