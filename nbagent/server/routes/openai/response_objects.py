"""The objects that a response is made of, as the Responses API has them."""

from __future__ import annotations

from typing import Any

from nbagent.core.content.images import Image
from nbagent.core.json_text import json_text
from nbagent.core.messages import Usage

#: The `server_label` of the tools, as if the agent were an MCP server.
SERVER_LABEL = "nbagent"


def response_object(response_id: str, model: str, created: int) -> dict[str, Any]:
    """A response without output that is in progress."""
    return {
        "id": response_id,
        "object": "response",
        "created_at": created,
        "status": "in_progress",
        "background": False,
        "error": None,
        "incomplete_details": None,
        "model": model,
        "output": [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": None,
    }


def text_part(text: str) -> dict[str, Any]:
    """The content of a message."""
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def phase_of(has_calls: bool) -> str:
    """What a turn's text is: commentary if calls of tools follow it, and else the answer."""
    return "commentary" if has_calls else "final_answer"


def call_item(item_id: str, name: str) -> dict[str, Any]:
    """A call of a tool that runs on the server. Clients show it and, unlike a `function_call`, never run it."""
    return {
        "type": "mcp_call",
        "id": item_id,
        "status": "in_progress",
        "server_label": SERVER_LABEL,
        "name": name,
        "arguments": "",
        "output": None,
        "error": None,
    }


def call_result(arguments: dict[str, Any], text: str, is_error: bool) -> dict[str, Any]:
    """What the result adds to the item of its call."""
    fields: dict[str, Any] = {"arguments": json_text(arguments)}
    if is_error:
        error = {"type": "mcp_tool_execution_error", "content": [{"type": "text", "text": text}]}
        return {**fields, "status": "failed", "error": error}
    return {**fields, "status": "completed", "output": text}


def image_item(item_id: str, image: Image) -> dict[str, Any]:
    """An image that the model made."""
    return {"type": "image_generation_call", "id": item_id, "status": "completed", "result": image.to_base64()}


def usage(counts: Usage, cost: float | None) -> dict[str, Any]:
    """The token counts of all turns of a run, and its US dollars, as OpenRouter tells them."""
    return {
        "input_tokens": counts.input_tokens,
        "input_tokens_details": {
            "cached_tokens": counts.cache_read_tokens,
            "cache_write_tokens": counts.cache_write_tokens,
        },
        "output_tokens": counts.output_tokens,
        "output_tokens_details": {"reasoning_tokens": counts.reasoning_tokens},
        "total_tokens": counts.total_tokens,
        **({} if cost is None else {"cost": cost}),
    }
