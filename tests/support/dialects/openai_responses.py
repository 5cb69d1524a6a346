"""OpenAI Responses: OpenAI's answers, and its refusals, in its own words where known."""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from support.dialects.base import (
    Asked,
    Dialect,
    answered_once,
    check_function,
    check_strict,
    known_fields,
    loads,
    require,
)
from support.dialects.openai_chat import TEXTS, openai_error
from support.dialects.script import Call, Reply, Said

WORDS = {"stop": "completed", "length": "max_output_tokens", "content_filter": "content_filter"}
CONTEXT = "Your input exceeds the context window of this model. Please adjust your input and try again."


class ResponsesDialect(Dialect):
    """The Responses API without state on the server."""

    base_path, path, conversation = "/v1", "/v1/responses", "input"
    cool = ("gpt-5", "o1", "o3", "o4")
    texts, words = TEXTS | {"context": CONTEXT}, WORDS
    counts_written = True

    def beginning(self, reply: Reply, asked: Asked) -> list[Any]:
        """Each item's start, pieces and end. The end has the encrypted content that counts."""
        opening = self.whole(reply, asked) | {"output": [], "usage": None, "status": "in_progress"}
        events = [{"type": kind, "response": opening} for kind in ("response.created", "response.in_progress")]
        for index, (part, item) in enumerate(zip(reply.parts, self._items(reply, asked), strict=True)):
            events.append({"type": "response.output_item.added", "output_index": index, "item": self._opened(item)})
            events += [{"output_index": index, "item_id": item["id"], **event} for event in self._pieces(part)]
            if not (reply.finish == "length" and isinstance(part, Call)):  # the limit cuts the last item
                events.append({"type": "response.output_item.done", "output_index": index, "item": item})
        return events

    def ending(self, reply: Reply, asked: Asked) -> list[Any]:
        """The whole response again, with differently encrypted reasoning."""
        response = self.whole(reply, asked)
        again = [item | {"encrypted_content": "other"} if "summary" in item else item for item in response["output"]]
        return [{"type": f"response.{response['status']}", "response": response | {"output": again}}]

    def issued(self, reply: Reply, asked: Asked) -> Any:
        return self._items(reply, asked)

    def error_event(self) -> Any:
        error = self.error_body("overloaded", self.texts["overloaded"])["error"]
        return {"type": "error", **error, "error": error}

    def noise(self) -> list[Any]:
        return [{"type": "response.rate_limits.updated"}, {"type": "response.dream.delta", "output_index": 99}]

    def error_body(self, kind: str, message: str) -> dict[str, Any]:
        return openai_error(kind, message)

    def whole(self, reply: Reply, asked: Asked) -> dict[str, Any]:
        word = reply.word or self.words[reply.finish if reply.finish in self.words else "stop"]
        done = word == "completed"
        counts = reply.counts
        return {
            "id": "resp_1",
            "object": "response",
            "model": asked.model,
            "status": "completed" if done else "incomplete",
            "incomplete_details": None if done else {"reason": word},
            "error": None,
            "output": self._items(reply, asked),
            "usage": {
                "input_tokens": counts.input,
                "input_tokens_details": {"cached_tokens": counts.cached, "cache_write_tokens": counts.written},
                "output_tokens": counts.output,
                "output_tokens_details": {"reasoning_tokens": counts.reasoning},
            },
        }

    def _items(self, reply: Reply, asked: Asked) -> list[dict[str, Any]]:
        return [self._item(part, n, reply, asked) for n, part in enumerate(reply.parts)]

    def _item(self, part: Any, n: int, reply: Reply, asked: Asked) -> dict[str, Any]:
        """An item, with an id that is unique to the request."""
        name = f"{zlib.crc32(asked.raw):08x}{n:08x}"
        if isinstance(part, Said):
            content = [{"type": "output_text", "text": part.text, "annotations": []}]
            head = {"id": f"msg_{name}", "type": "message", "role": "assistant", "status": "completed"}
            return {**head, "content": content}
        if isinstance(part, Call):
            status = "incomplete" if reply.finish == "length" else "completed"
            called = {"name": part.name, "arguments": part.text, "status": status}
            return {"id": f"fc_{name}", "type": "function_call", "call_id": part.id, **called}
        summary = [{"type": "summary_text", "text": part.text}]
        return {"id": f"rs_{name}", "type": "reasoning", "summary": summary, "encrypted_content": part.signature}

    def _opened(self, item: dict[str, Any]) -> dict[str, Any]:
        empty = {"message": {"content": []}, "function_call": {"arguments": ""}, "reasoning": {"summary": []}}
        early = {"encrypted_content": "early"} if item["type"] == "reasoning" else {"status": "in_progress"}
        return item | empty[item["type"]] | early

    def _pieces(self, part: Any) -> list[dict[str, Any]]:
        if isinstance(part, Said):
            return [{"type": "response.output_text.delta", "content_index": 0, "delta": d} for d in part.pieces]
        if isinstance(part, Call):
            return [{"type": "response.function_call_arguments.delta", "delta": piece} for piece in part.pieces]
        kind = "response.reasoning_summary_text.delta"
        return [{"type": kind, "summary_index": 0, "delta": piece} for piece in part.pieces]

    def details(self, body: dict[str, Any], turns: list[Any]) -> dict[str, Any]:
        lists = [value for item in turns for value in (item.get("content"), item.get("output"))]
        parts = [part for value in lists if isinstance(value, list) for part in value]
        urls = [part["image_url"] for part in parts if part["type"] == "input_image"]
        return {
            "system": "".join(item["content"] for item in turns if item.get("role") == "system"),
            "limit": body.get("max_output_tokens"),
            "images": [url.removeprefix("data:image/png;base64,") for url in urls],
        }

    def check(self, asked: Asked, issued: Sequence[Any]) -> None:
        _check_head(self, asked)
        _check_conversation(asked.turns, issued)


# -- what is refused -----------------------------------------------------------------------------------------------

_FIELDS = (
    *str.split("model input stream store include instructions tools tool_choice parallel_tool_calls temperature top_p"),
    *str.split("max_output_tokens reasoning text metadata user truncation previous_response_id prompt_cache_key"),
    *str.split("service_tier safety_identifier top_logprobs background max_tool_calls stream_options"),
)
_ITEM_FIELDS = {
    "message": "type role content id status phase",
    "function_call": "type call_id name arguments id status",
    "function_call_output": "type call_id output id status",
    "reasoning": "type id summary content encrypted_content status",
}
_PARTS = {
    "user": {"input_text", "input_image", "input_file"},
    "system": {"input_text"},
    "assistant": {"output_text", "refusal"},
}
_NAME = r"[a-zA-Z0-9_-]{1,64}"


def _check_head(provider: ResponsesDialect, asked: Asked) -> None:
    body = asked.body
    known_fields(body, _FIELDS, "Unknown parameter: '{}'.")
    require(body["store"] is False, "nothing may be stored here")
    require(asked.limit is None or asked.limit >= 16, "Invalid 'max_output_tokens': integer below minimum value.")
    require(provider.takes(asked), "Unsupported parameter: 'temperature' is not supported with this model.")
    wanted = body.get("text", {}).get("format", {})
    if wanted.get("strict"):
        check_strict(wanted["schema"])
    for n, tool in enumerate(body.get("tools", ())):
        fields = {"type", "name", "description", "parameters", "strict"}
        known_fields(tool, fields, f"Unknown parameter: 'tools[{n}].{{}}'.")
        require(tool["type"] == "function", f"Invalid value: 'tools[{n}].type'")
        check_function(tool, "parameters", _NAME, f"tools[{n}]")
        require(tool["strict"] is False, f"tools[{n}]: strict schemas allow no optional parameters")


def _check_conversation(items: Sequence[Mapping[str, Any]], issued: Sequence[Any]) -> None:
    """Check each item, each call's output, and the item after reasoning."""
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
    _check_mine(list(items), issued)


def _check_item(item: Mapping[str, Any], where: str) -> None:
    kind, content = item["type"], item.get("content")
    known_fields(item, _ITEM_FIELDS[kind].split(), f"Unknown parameter: '{where}.{{}}'.")
    if kind == "message" and not isinstance(content, str):
        require(content and {part["type"] for part in content} <= _PARTS[item["role"]], f"Invalid: '{where}.content'.")
    elif kind == "function_call":
        require(re.fullmatch(_NAME, item["name"]), f"Invalid '{where}.name': string does not match pattern.")
        require(isinstance(loads(item["arguments"]), dict), f"Invalid type for '{where}.arguments'.")
    if kind.startswith("function_call"):
        require(0 < len(item["call_id"]) <= 64, f"Invalid '{where}.call_id': expected a string with maximum length 64.")


def _check_mine(rest: list[Mapping[str, Any]], issued: Sequence[Any]) -> None:
    """Items that this server sent must come back unchanged; unknown reasoning is refused."""
    for mine in issued:
        at = next((n for n, item in enumerate(rest) if _outline(item) and _outline(item) == _outline(mine[-1])), None)
        thought = any(item["type"] == "reasoning" for item in mine)
        if at is not None and (thought or "id" in rest[at]):  # else not in this conversation, or rebuilt from its text
            begin = at + 1 - len(mine)
            whole = begin >= 0 and rest[begin : at + 1] == mine
            require(whole, f"Item '{mine[-1]['id']}' was provided without its required 'reasoning' item.")
            rest[begin : at + 1] = []
    lonely = any(item["type"] == "reasoning" for item in rest)
    require(not lonely, "Item of type 'reasoning' was provided without its required following item.")


def _outline(item: Mapping[str, Any]) -> Any:
    """The text or call that identifies an item."""
    if item["type"] == "message" and item["role"] == "assistant":
        content = item["content"]
        return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
    return item.get("call_id") if item["type"] == "function_call" else None
