"""The numbers of a vendor's answer, computed from its raw bytes without code of nbagent.

`said(api, body)` returns a `Said`: tokens as OpenTelemetry counts them (input includes cache reads and writes, output
includes thinking), the text, the thinking, and the calls.
"""

import json
from dataclasses import dataclass, field


@dataclass
class Said:
    """One answer; None for a number that the vendor did not report."""

    input: int | None = None
    output: int | None = None
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0
    text: str = ""
    thinking: str = ""
    calls: list = field(default_factory=list)  # (name, arguments as sent)
    counts: dict = field(default_factory=dict)  # of Claude, those so far
    open: bool = False  # whether the current block is a call of one of our tools


def events(body: str) -> list[dict]:
    """The JSON objects in a body: the data lines of a stream, the items of a list, or a single object."""
    if body.lstrip()[:1] in "[{":
        whole = json.loads(body)
        return whole if isinstance(whole, list) else [whole]
    lines = [line[5:].strip() for line in body.splitlines() if line.startswith("data:")]
    return [json.loads(line) for line in lines if line and line != "[DONE]"]


def said(api: str, body: str) -> Said:
    found = Said()
    for event in events(body):
        _READERS[api](event, found)
    found.calls = [(name, _arguments(given)) for name, given in found.calls]
    return found


def _arguments(given):
    """The arguments as an object, or as text if they were cut off."""
    text = "".join(given) if isinstance(given, list) else json.dumps(given)
    try:
        return json.loads(text or "{}")
    except ValueError:
        return text


def _at(data, *path):
    """The value at the end of the path; 0 if it is missing."""
    for name in path:
        data = (data or {}).get(name)
    return data or 0


def _messages(event, found):
    """Counts grow from event to event; `input_tokens` does not include the cache."""
    kind = event.get("type")
    if kind in ("message_start", "message"):
        message = event.get("message", event)
        _messages_usage(message["usage"], found)
        for block in message["content"]:
            _messages_block(block, found)
    elif kind == "message_delta":
        _messages_usage(event.get("usage") or {}, found)
    elif kind == "content_block_start":
        _messages_block(event["content_block"], found, streamed=True)
    elif kind == "content_block_delta":
        delta = event["delta"]
        found.text += delta.get("text", "")
        found.thinking += delta.get("thinking", "")
        if delta["type"] == "input_json_delta" and found.open:
            found.calls[-1][1].append(delta["partial_json"])


def _messages_block(block, found, streamed=False):
    found.text += block.get("text", "")
    found.thinking += block.get("thinking", "")
    found.open = block["type"] == "tool_use"
    if found.open:
        found.calls.append((block["name"], [] if streamed and not block["input"] else block["input"]))


def _messages_usage(usage, found):
    counts = found.counts = found.counts | {key: value for key, value in usage.items() if value is not None}
    found.cache_read = _at(counts, "cache_read_input_tokens")
    found.cache_write = _at(counts, "cache_creation_input_tokens")
    found.input = counts["input_tokens"] + found.cache_read + found.cache_write
    found.output = counts["output_tokens"]
    found.reasoning = _at(counts, "output_tokens_details", "thinking_tokens")


def _openai_usage(usage, found, sent, received):
    """Tokens sent include the cache, tokens received include thinking."""
    found.input, found.output = usage[sent], usage[received]
    found.cache_read = _at(usage, f"{sent}_details", "cached_tokens")
    found.cache_write = _at(usage, f"{sent}_details", "cache_write_tokens")
    found.reasoning = _at(usage, f"{received}_details", "reasoning_tokens")


def _chat(event, found):
    if usage := event.get("usage"):
        _openai_usage(usage, found, "prompt_tokens", "completion_tokens")
    for choice in event.get("choices", []):
        if choice.get("index"):  # only the first of several answers counts
            continue
        piece = choice.get("delta") or choice.get("message") or {}
        found.text += piece.get("content") or piece.get("refusal") or ""
        found.thinking += piece.get("reasoning_content") or ""
        for call in piece.get("tool_calls") or []:
            if call["function"].get("name"):
                found.calls.append((call["function"]["name"], []))
            found.calls[call.get("index", -1)][1].append(call["function"].get("arguments") or "")


def _responses(event, found):
    kind = event.get("type", "")
    if kind.startswith("response.") and kind not in ("response.completed", "response.incomplete"):
        return
    answer = event.get("response", event)
    if usage := answer.get("usage"):
        _openai_usage(usage, found, "input_tokens", "output_tokens")
    for item in answer.get("output", []):
        if item["type"] == "message":
            found.text += "".join(part.get("text") or part.get("refusal") or "" for part in item["content"])
        elif item["type"] == "function_call":
            found.calls.append((item["name"], [item["arguments"]]))
        elif item["type"] == "reasoning":
            parts = item.get("summary") or item.get("content") or []
            found.thinking += "\n\n".join(part["text"] for part in parts)  # paragraphs


def _gemini(event, found):
    """The last counts are those of the whole answer; `candidatesTokenCount` does not include thinking.

    `toolUsePromptTokenCount`, what Google's own tools read, is not part of the prompt.
    """
    if usage := event.get("usageMetadata"):
        found.reasoning, found.cache_read = _at(usage, "thoughtsTokenCount"), _at(usage, "cachedContentTokenCount")
        found.input = _at(usage, "promptTokenCount")
        found.output = _at(usage, "candidatesTokenCount") + found.reasoning
    for candidate in event.get("candidates", [])[:1]:
        for part in (candidate.get("content") or {}).get("parts", []):
            if part.get("thought"):
                found.thinking += part.get("text", "")
            else:
                found.text += part.get("text", "")
            if call := part.get("functionCall"):
                found.calls.append((call.get("name"), call.get("args", {})))


_READERS = {
    "anthropic.messages": _messages,
    "openai.chat": _chat,
    "openai.responses": _responses,
    "gemini.generateContent": _gemini,
}
