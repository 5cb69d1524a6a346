"""The Messages API of Claude and MiniMax: their answers, and their refusals, in their own words where known."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from support.dialects.base import Asked, Dialect, answered_once, check_function, is_known, known_fields, require
from support.dialects.script import Call, Reply, Said

WORDS = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens", "refusal": "refusal"}
WORDS["pause"] = "pause_turn"
TEXTS = {
    "key": "invalid x-api-key",
    "rate_limit": "This request would exceed your account's rate limit. Please try again later.",
    "overloaded": "Overloaded",
    "context": "prompt is too long: 210000 tokens > 200000 maximum",
}
_TYPES = {"key": "authentication_error", "missing": "not_found_error"}
_TYPES |= {"rate_limit": "rate_limit_error", "overloaded": "overloaded_error"}
_MARK = re.compile(rb',"cache_control":\{[^}]*\}')


class MessagesDialect(Dialect):
    """Anthropic Messages as one provider speaks it."""

    #: Thinking has a signature, and is refused without it.
    signed = True
    cool = ("claude-opus-5", "claude-sonnet-5", "claude-opus-4-7", "claude-opus-4-8", "claude-fable")
    id_pattern = "[a-zA-Z0-9_-]+"
    path = "/v1/messages"
    texts, words = TEXTS, WORDS
    extra = ("metadata", {"user_id": "u1"})
    counts_written = True

    def beginning(self, reply: Reply, asked: Asked) -> list[Any]:
        """Each block with its start, pieces and stop. Token counts come at the start and in between."""
        message = {**self._message(asked), "content": [], "stop_reason": None, "usage": self._usage(reply, 1)}
        events: list[Any] = [{"type": "message_start", "message": message}, {"type": "ping"}]
        for index, part in enumerate(reply.parts):
            events.append({"type": "content_block_start", "index": index, "content_block": self._opened(part)})
            pieces = self._deltas(part)
            events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in pieces]
            events.append({"type": "content_block_stop", "index": index})
        if reply.finish == "length" and reply.calls:
            del events[-1]  # the limit cuts the last block
        return events

    def ending(self, reply: Reply, asked: Asked) -> list[Any]:
        """The token counts so far, then the final ones; all are totals."""
        delta = {"stop_reason": self.word(reply), "stop_sequence": None}
        return [
            {"type": "message_delta", "delta": {}, "usage": {"output_tokens": 2}},
            {"type": "message_delta", "delta": delta, "usage": self._usage(reply, reply.counts.output)},
            {"type": "message_stop"},
        ]

    def whole(self, reply: Reply, asked: Asked) -> dict[str, Any]:
        content, usage = [self._block_of(part) for part in reply.parts], self._usage(reply, reply.counts.output)
        return {**self._message(asked), "content": content, "stop_reason": self.word(reply), "usage": usage}

    def issued(self, reply: Reply, asked: Asked) -> Any:
        return [block for block in self.whole(reply, asked)["content"] if block.get("text") != ""]

    def noise(self) -> list[Any]:
        return [{"type": "ping"}, {"type": "content_block_dream", "index": 0, "dream": "sheep"}]

    def error_body(self, kind: str, message: str) -> dict[str, Any]:
        error = {"type": _TYPES.get(kind, "invalid_request_error"), "message": message}
        return {"type": "error", "error": error, "request_id": "req_1"}

    def status(self, kind: str) -> int:
        return 529 if kind == "overloaded" else super().status(kind)

    def _message(self, asked: Asked) -> dict[str, Any]:
        return {"id": "msg_1", "type": "message", "role": "assistant", "model": asked.model, "stop_sequence": None}

    def _block_of(self, part: Any) -> dict[str, Any]:
        """A whole block, without the arguments that the token limit cut off."""
        if isinstance(part, Said):
            return {"type": "text", "text": part.text}
        if not isinstance(part, Call):
            signature = {"signature": part.signature} if self.signed else {}
            return {"type": "thinking", "thinking": part.text, **signature}
        try:
            arguments = json.loads(part.text or "{}")
        except ValueError:
            arguments = {}
        return {"type": "tool_use", **({"id": part.id} if part.id else {}), "name": part.name, "input": arguments}

    def _opened(self, part: Any) -> dict[str, Any]:
        block = self._block_of(part)
        empty = {"text": "", "thinking": "", "input": {}, "signature": ""}
        return block | {name: value for name, value in empty.items() if name in block}

    def _deltas(self, part: Any) -> list[dict[str, Any]]:
        if isinstance(part, Said):
            return [{"type": "text_delta", "text": piece} for piece in part.pieces]
        if isinstance(part, Call):
            return [{"type": "input_json_delta", "partial_json": piece} for piece in ("", *part.pieces)]
        signature = [{"type": "signature_delta", "signature": part.signature}] if self.signed else []
        return [*({"type": "thinking_delta", "thinking": piece} for piece in part.pieces), *signature]

    def _usage(self, reply: Reply, output: int) -> dict[str, Any]:
        """Input does not count cached tokens."""
        counts = reply.counts
        return {
            "input_tokens": counts.input - counts.cached - counts.written,
            "cache_read_input_tokens": counts.cached,
            "cache_creation_input_tokens": counts.written,
            "output_tokens": output,
            "output_tokens_details": {"thinking_tokens": counts.reasoning},
        }

    def key(self, headers: Mapping[str, str]) -> str | None:
        require("anthropic-version" in headers, "anthropic-version: header is required")
        return headers.get("x-api-key") or super().key(headers)

    def details(self, body: dict[str, Any], turns: list[Any]) -> dict[str, Any]:
        blocks = [block for turn in turns if isinstance(turn["content"], list) for block in turn["content"]]
        inner = [block["content"] for block in blocks if isinstance(block.get("content"), list)]
        pictures = [block for block in sum(inner, blocks) if block.get("type") == "image"]
        return {
            "system": "".join(block["text"] for block in body.get("system", ())),
            "limit": body["max_tokens"],
            "images": [block["source"]["data"] for block in pictures],
        }

    def check(self, asked: Asked, issued: Sequence[Any]) -> None:
        _check_head(self, asked)
        _check_conversation(self, asked.turns, issued)

    def without_marks(self, raw: bytes) -> bytes:
        return _MARK.sub(b"", raw)


# -- what is refused -----------------------------------------------------------------------------------------------

_FIELDS = (
    *str.split("model messages max_tokens system tools tool_choice temperature top_p top_k stop_sequences stream"),
    *str.split("metadata thinking output_config service_tier context_management container mcp_servers"),
)
_BLOCK_FIELDS = {
    "text": "type text citations cache_control",
    "image": "type source cache_control",
    "document": "type source title cache_control",
    "tool_use": "type id name input caller cache_control",
    "tool_result": "type tool_use_id content is_error cache_control",
    "thinking": "type thinking signature",
    "redacted_thinking": "type data",
}
_BY_ROLE = {"user": "text image document tool_result", "assistant": "text tool_use thinking redacted_thinking"}
_NAME = r"[a-zA-Z0-9_-]{1,128}"
_EXTRA = "{}: Extra inputs are not permitted"
#: The required fields of each kind of block.
_BLOCKS = {
    "text": (lambda block, _: block["text"].strip(), "text content blocks must contain non-whitespace text"),
    "image": (lambda block, _: block["source"].keys() == {"type", "media_type", "data"}, "source: Field required"),
    "tool_use": (
        lambda block, provider_name: (
            re.fullmatch(provider_name.id_pattern, block["id"])
            and re.fullmatch(_NAME, block["name"])
            and isinstance(block["input"], dict)
        ),
        "id or name: String should match pattern, or input: Input should be a valid dictionary",
    ),
    "thinking": (
        lambda block, dialect: block.get("signature") or not dialect.signed,
        "signature: Field required",
    ),
}


def _check_head(provider: MessagesDialect, asked: Asked) -> None:
    body, temperature = asked.body, asked.temperature
    known_fields(body, _FIELDS, _EXTRA)
    require(body["max_tokens"] > 0, "max_tokens: Field required")
    require(provider.takes(asked), "`temperature` is deprecated for this model.")
    least = provider.least_temperature
    require(temperature is None or least <= temperature <= 1, "invalid params, temperature is out of range (2013)")
    for block in body.get("system", ()):
        require(block["type"] == "text" and block["text"].strip(), "system: text content blocks must be non-empty")
    tools = body.get("tools", ())
    require(tools or "tools" not in body, "tools: at least one tool is required")
    for n, tool in enumerate(tools):
        if tool.get("type") == "memory_20250818":
            known_fields(tool, {"type", "name", "cache_control"}, f"tools.{n}.{_EXTRA}")
            continue
        known_fields(tool, {"name", "description", "input_schema", "cache_control"}, f"tools.{n}.custom.{_EXTRA}")
        check_function(tool, "input_schema", _NAME, f"tools.{n}.custom")
    require(len({tool["name"] for tool in tools}) == len(tools), "tools: Tool names must be unique.")
    marks = list(_marks([tools, body.get("system", []), body["messages"]]))
    require(len(marks) <= 4, f"A maximum of 4 blocks with cache_control may be provided. Found {len(marks)}.")
    lives = [mark.get("ttl", "5m") for mark in marks]
    require(lives == sorted(lives), "a ttl='1h' cache_control block must not come after a ttl='5m' block")
    require(all(mark["type"] == "ephemeral" for mark in marks), "cache_control.type must be ephemeral")


def _marks(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield from [value["cache_control"]] if "cache_control" in value else []
        value = value.get("content")
    for item in value if isinstance(value, list | tuple) else ():
        yield from _marks(item)


def _check_conversation(provider: MessagesDialect, messages: Sequence[dict[str, Any]], issued: Sequence[Any]) -> None:
    """Check that the sides alternate, results directly follow their calls, and thinking is unmodified."""
    require(messages[-1]["role"] == "user", "This model does not support assistant message prefill.")
    called: list[str] = []
    seen: list[str] = []
    for n, message in enumerate(messages):
        known_fields(message, {"role", "content"}, f"messages.{n}.{_EXTRA}")
        expected, blocks = ("user", "assistant")[n % 2], message["content"]
        require(message["role"] == expected, f'messages: roles must alternate between "user" and "assistant" ({n})')
        require(isinstance(blocks, list) and blocks, f"messages.{n}: all messages must have non-empty content")
        for m, block in enumerate(blocks):
            _check_block(provider, block, expected, f"messages.{n}.content.{m}")
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        first = blocks[: len(results)]
        require(all(block["type"] == "tool_result" for block in first), f"messages.{n}: tool_result blocks come first")
        answered_once(called, results, f"messages.{n}: `tool_use` ids were found without `tool_result` blocks")
        called = [block["id"] for block in blocks if block["type"] == "tool_use"]
        seen += called
        require(len(set(seen)) == len(seen), f"messages.{n}: `tool_use` ids must be unique")
        if expected == "assistant":
            bare = [{key: value for key, value in block.items() if key != "cache_control"} for block in blocks]
            known = is_known(bare, issued, _outline, lambda block: "thinking" in block["type"])
            require(known, f"messages.{n}: `thinking` blocks in the latest assistant message cannot be modified.")


def _check_block(provider: MessagesDialect, block: Mapping[str, Any], role: str, where: str) -> None:
    kind = block["type"]
    require(kind in _BY_ROLE[role].split(), f"{where}: Input tag {kind!r} is not expected here")
    known_fields(block, _BLOCK_FIELDS[kind].split(), f"{where}.{kind}.{_EXTRA}")
    is_right, text = _BLOCKS.get(kind, (lambda *_: True, ""))
    require(is_right(block, provider), f"{where}.{kind}.{text}")
    if kind == "tool_result" and not isinstance(block.get("content", ""), str):
        for part in block["content"]:
            _check_block(provider, part, "user", f"{where}.content")


def _outline(blocks: Sequence[Mapping[str, Any]]) -> list[Any]:
    """The text and calls that identify an answer."""
    return [block.get("text") or block.get("id") for block in blocks if block["type"] in ("text", "tool_use")]
