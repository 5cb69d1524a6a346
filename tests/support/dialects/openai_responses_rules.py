"""What the Responses API refuses, in its own words where these are known."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from support.dialects.base import Asked, answered_once, known_fields, require, schema_is_plain

if TYPE_CHECKING:
    from support.dialects.openai_responses import ResponsesDialect

_FIELDS = (
    *str.split("model input stream store include instructions tools tool_choice parallel_tool_calls temperature top_p"),
    *str.split("max_output_tokens reasoning text metadata user truncation previous_response_id prompt_cache_key"),
    *str.split("service_tier safety_identifier top_logprobs background max_tool_calls stream_options"),
)
_ITEM_FIELDS = {
    "message": {"type", "role", "content", "id", "status", "phase"},
    "function_call": {"type", "call_id", "name", "arguments", "id", "status"},
    "function_call_output": {"type", "call_id", "output", "id", "status"},
    "reasoning": {"type", "id", "summary", "content", "encrypted_content", "status"},
}
_PARTS = {
    "user": {"input_text", "input_image", "input_file"},
    "system": {"input_text"},
    "assistant": {"output_text", "refusal"},
}
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_LONGEST_ID = 64


def check_head(dialect: ResponsesDialect, asked: Asked) -> None:
    """Everything but the input."""
    body = asked.body
    known_fields(body, _FIELDS, "Unknown parameter: '{}'.")
    require(asked.model, "you must provide a model parameter")
    require(body.get("store") is False, "nothing may be stored here")
    require(asked.limit is None or asked.limit >= 16, "Invalid 'max_output_tokens': integer below minimum value.")
    cool = asked.temperature is not None and asked.model.startswith(dialect.cool or ("\0",))
    require(not cool, "Unsupported parameter: 'temperature' is not supported with this model.")
    for n, tool in enumerate(body.get("tools", ())):
        known_fields(
            tool, {"type", "name", "description", "parameters", "strict"}, f"Unknown parameter: 'tools[{n}].{{}}'."
        )
        require(tool["type"] == "function", f"Invalid value: 'tools[{n}].type'")
        require(_NAME.fullmatch(tool.get("name", "")), f"Missing required parameter: 'tools[{n}].name'.")
        schema_is_plain(tool.get("parameters"), f"tools[{n}].parameters")
        require(tool.get("strict") is False, f"tools[{n}]: strict schemas allow no optional parameters")


def check_conversation(items: Sequence[Mapping[str, Any]], issued: Sequence[Any]) -> None:
    """Each item by itself, each call with its output, reasoning with what followed it."""
    called: list[str] = []
    results: list[str] = []
    ids = [item["id"] for item in items if "id" in item]
    require(len(set(ids)) == len(ids), "Duplicate item found. Remove duplicate items from your input and try again.")
    for n, item in enumerate(items):
        _check_item(item, f"input[{n}]")
        if item["type"] == "function_call":
            called.append(item["call_id"])
        elif item["type"] == "function_call_output":
            require(item["call_id"] in called, f"No tool call found for function call output {item['call_id']}.")
            results.append(item["call_id"])
    require(len(set(called)) == len(called), "input: call ids must be unique")
    answered_once(called, results, "No tool output found for function call")
    _check_mine(items, issued)


def _check_item(item: Mapping[str, Any], where: str) -> None:
    kind = item.get("type")
    require(kind in _ITEM_FIELDS, f"Invalid value: {kind!r} at '{where}.type'.")
    known_fields(item, _ITEM_FIELDS[kind], f"Unknown parameter: '{where}.{{}}'.")
    if kind == "message":
        require(item.get("role") in _PARTS, f"Invalid value: '{where}.role'.")
        parts = item["content"] if isinstance(item["content"], list) else []
        require(all(part["type"] in _PARTS[item["role"]] for part in parts), f"Invalid value: '{where}.content'.")
        require(isinstance(item["content"], str) or parts, f"'{where}.content' is empty")
    elif kind == "function_call":
        require(_NAME.fullmatch(item["name"]), f"Invalid '{where}.name': string does not match pattern.")
        require(isinstance(item["arguments"], str), f"Invalid type for '{where}.arguments'.")
    if "call_id" in _ITEM_FIELDS[kind]:
        short = 0 < len(item["call_id"]) <= _LONGEST_ID
        require(short, f"Invalid '{where}.call_id': string too long. Expected a string with maximum length 64.")


def _check_mine(items: Sequence[Mapping[str, Any]], issued: Sequence[Any]) -> None:
    """What this server said comes back item by item; unknown reasoning is refused."""
    rest = list(items)
    for mine in issued:
        at = next((n for n, item in enumerate(rest) if _outline(item) and _outline(item) == _outline(mine[-1])), None)
        thought = any(item["type"] == "reasoning" for item in mine)
        if at is None or not (thought or "id" in rest[at]):  # not in this conversation, or rebuilt from its text
            continue
        begin = at + 1 - len(mine)
        require(
            begin >= 0 and rest[begin : at + 1] == mine,
            f"Item '{mine[-1]['id']}' of type '{mine[-1]['type']}' was provided without its required 'reasoning' item.",
        )
        rest[begin : at + 1] = []
    require(
        not any(item["type"] == "reasoning" for item in rest),
        "Item of type 'reasoning' was provided without its required following item, or could not be verified.",
    )


def _outline(item: Mapping[str, Any]) -> Any:
    """The text or call by which an item is recognized."""
    if item["type"] == "message" and item["role"] == "assistant":
        content = item["content"]
        return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
    return item.get("call_id") if item["type"] == "function_call" else None
