"""What the Messages API refuses, in its own words where these are known."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from support.dialects.base import Asked, answered_once, known_fields, require, schema_is_plain, without_whole

if TYPE_CHECKING:
    from support.dialects.anthropic_messages import MessagesDialect

_FIELDS = (
    *str.split("model messages max_tokens system tools tool_choice temperature top_p top_k stop_sequences stream"),
    *str.split("metadata thinking output_config service_tier context_management container mcp_servers"),
)
_BLOCK_FIELDS = {
    "text": {"type", "text", "citations"},
    "image": {"type", "source"},
    "document": {"type", "source", "title"},
    "tool_use": {"type", "id", "name", "input", "caller"},
    "tool_result": {"type", "tool_use_id", "content", "is_error"},
    "thinking": {"type", "thinking", "signature"},
    "redacted_thinking": {"type", "data"},
}
_BY_ROLE = {
    "user": {"text", "image", "document", "tool_result"},
    "assistant": {"text", "tool_use", "thinking", "redacted_thinking"},
}
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")


def check_head(dialect: MessagesDialect, asked: Asked) -> None:
    """Everything but the messages, and all cache breakpoints."""
    body = asked.body
    known_fields(body, _FIELDS, "{}: Extra inputs are not permitted")
    require(asked.model, "model: Field required")
    require(isinstance(body.get("max_tokens"), int) and body["max_tokens"] > 0, "max_tokens: Field required")
    cool = asked.temperature is not None and asked.model.startswith(dialect.cool or ("\0",))
    require(not cool, "`temperature` is deprecated for this model.")
    if asked.temperature is not None:
        low = asked.temperature == 0 and dialect.zero_refused
        require(not low and 0 <= asked.temperature <= 1, "invalid params, temperature is out of range (2013)")
    for block in body.get("system", ()):
        require(block.get("type") == "text" and block["text"].strip(), "system: text content blocks must be non-empty")
    if "tools" in body:
        _check_tools(body["tools"])
    _check_marks(body)


def _check_tools(tools: Any) -> None:
    require(isinstance(tools, list) and tools, "tools: at least one tool is required")
    for n, tool in enumerate(tools):
        if "type" in tool:
            known_fields(tool, {"type", "name", "cache_control"}, f"tools.{n}.memory_20250818.{{}}: Extra inputs")
            require((tool["type"], tool["name"]) == ("memory_20250818", "memory"), f"tools.{n}: unknown type")
            continue
        known = {"name", "description", "input_schema", "cache_control"}
        known_fields(tool, known, f"tools.{n}.custom.{{}}: Extra inputs are not permitted")
        require(_NAME.fullmatch(tool.get("name", "")), f"tools.{n}.custom.name: String should match pattern")
        schema_is_plain(tool.get("input_schema"), f"tools.{n}.custom.input_schema")
    require(len({tool["name"] for tool in tools}) == len(tools), "tools: Tool names must be unique.")


def _check_marks(body: Mapping[str, Any]) -> None:
    """At most four breakpoints, and those for an hour before those for five minutes."""
    marks = list(_marks([body.get("tools", []), body.get("system", []), body["messages"]]))
    require(len(marks) <= 4, f"A maximum of 4 blocks with cache_control may be provided. Found {len(marks)}.")
    lives = [mark.get("ttl", "5m") for mark in marks]
    require(lives == sorted(lives), "a ttl='1h' cache_control block must not come after a ttl='5m' block")
    require(all(mark["type"] == "ephemeral" for mark in marks), "cache_control.type must be ephemeral")


def _marks(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        if "cache_control" in value:
            yield value["cache_control"]
        for name, item in value.items():
            if name in ("content", "messages"):
                yield from _marks(item)
    elif isinstance(value, list):
        for item in value:
            yield from _marks(item)


def check_conversation(dialect: MessagesDialect, messages: Sequence[Mapping[str, Any]], issued: Sequence[Any]) -> None:
    """The two sides alternate, results follow their calls at once, thinking is unmodified."""
    require(messages[0]["role"] == "user", 'messages: first message must use the "user" role')
    require(messages[-1]["role"] == "user", "This model does not support assistant message prefill.")
    called: list[str] = []
    seen: set[str] = set()
    for n, message in enumerate(messages):
        require(message.keys() == {"role", "content"}, f"messages.{n}: Extra inputs are not permitted")
        expected = ("user", "assistant")[n % 2]
        require(message["role"] == expected, f'messages: roles must alternate between "user" and "assistant" ({n})')
        blocks = message["content"]
        require(isinstance(blocks, list) and blocks, f"messages.{n}: all messages must have non-empty content")
        for m, block in enumerate(blocks):
            _check_block(dialect, block, message["role"], f"messages.{n}.content.{m}")
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        first = blocks[: len(results)]
        require(all(block["type"] == "tool_result" for block in first), f"messages.{n}: tool_result blocks come first")
        answered_once(called, results, f"messages.{n}: `tool_use` ids were found without `tool_result` blocks")
        called = [block["id"] for block in blocks if block["type"] == "tool_use"]
        require(len({*called, *seen}) == len(called) + len(seen), f"messages.{n}: `tool_use` ids must be unique")
        seen |= set(called)
        if message["role"] == "assistant":
            _check_thinking(blocks, issued, f"messages.{n}")


def _check_block(dialect: MessagesDialect, block: Mapping[str, Any], role: str, where: str) -> None:
    kind = block.get("type", "")
    require(kind in _BY_ROLE[role], f"{where}: Input tag {kind!r} is not expected here")
    known = _BLOCK_FIELDS[kind] | (set() if "thinking" in kind else {"cache_control"})
    known_fields(block, known, f"{where}.{kind}.{{}}: Extra inputs are not permitted")
    if kind == "text":
        require(block["text"].strip(), "messages: text content blocks must contain non-whitespace text")
    elif kind == "image":
        require(block["source"].keys() == {"type", "media_type", "data"}, f"{where}.source: Field required")
    elif kind == "tool_use":
        pattern = f"String should match pattern '^{dialect.id_pattern}$'"
        require(re.fullmatch(dialect.id_pattern, block.get("id", "")), f"{where}.tool_use.id: {pattern}")
        require(_NAME.fullmatch(block["name"]), f"{where}.tool_use.name: String should match pattern")
        require(isinstance(block["input"], dict), f"{where}.tool_use.input: Input should be a valid dictionary")
    elif kind == "tool_result" and not isinstance(block.get("content", ""), str):
        for part in block["content"]:
            _check_block(dialect, part, "user", f"{where}.content")
    elif kind == "thinking" and dialect.signed:
        require(block.get("signature"), f"{where}.thinking.signature: Field required")


def _check_thinking(blocks: Sequence[Mapping[str, Any]], issued: Sequence[Any], where: str) -> None:
    """What this server said comes back block by block; thinking from elsewhere is not checked."""
    bare = [{key: value for key, value in block.items() if key != "cache_control"} for block in blocks]
    mine = next((item for item in issued if _outline(item) == _outline(bare)), None)
    if mine is not None:
        require(bare == mine, f"{where}: `thinking` blocks in the latest assistant message cannot be modified.")
    else:
        thinking = [block for block in without_whole(bare, issued) if "thinking" in block["type"]]
        require(not thinking, f"{where}: Invalid `signature` in `thinking` block")


def _outline(blocks: Sequence[Mapping[str, Any]]) -> list[Any]:
    """The text and calls by which an answer is recognized."""
    return [block.get("text") or block.get("id") for block in blocks if block["type"] in ("text", "tool_use")]
