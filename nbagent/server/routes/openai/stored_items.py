"""What a conversation keeps as items of responses: questions, texts, images, calls with their results.

Token counts, thinking and the fields of the requests are not kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from fastapi import Query
from pydantic import BaseModel, Field

from nbagent.core.content.images import Image, content_as_text, images_in
from nbagent.core.messages import LLMMessage
from nbagent.server.routes.openai.response_ids import item_id
from nbagent.server.routes.openai.response_objects import call_item, call_result, image_item, phase_of, text_part


class PageQuery(BaseModel):
    """Which items to list: at most `limit`, in this order, behind the item `after`."""

    limit: int = Field(20, ge=1, le=100)
    order: Literal["asc", "desc"] = "desc"
    after: str | None = None


ItemsPage = Annotated[PageQuery, Query()]


def stored_items(conversation_id: str, messages: Sequence[LLMMessage]) -> Iterator[dict[str, Any]]:
    """The items of a conversation, or of some of its turns."""
    results = {message.tool_call_id: message for message in messages if message.role == "tool"}
    for number, message in enumerate(messages):
        name = message.message_id or f"msg_{number}"
        if message.opens_turn:
            content = message.content
            parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
            item = {"type": "message", "id": item_id("msg", conversation_id, name), "status": "completed"}
            yield {**item, "role": "user", "content": [_input_part(part) for part in parts]}
        if message.role != "assistant":
            continue
        if message.text:
            yield {
                "type": "message",
                "id": item_id("msg", conversation_id, name),
                "status": "incomplete" if message.interrupted else "completed",
                "role": "assistant",
                "content": [text_part(message.text)],
                "phase": phase_of(bool(message.tool_calls)),
            }
        for index, image in enumerate(images_in(message.content)):
            yield image_item(item_id("ig", conversation_id, name, index), image)
        for index, call in enumerate(message.tool_calls or ()):
            result = results[call.id]
            item = call_item(item_id("mcp", conversation_id, name, index), call.name)
            yield item | call_result(call.arguments, content_as_text(result.content), result.is_error)


def _input_part(part: Mapping[str, Any]) -> dict[str, Any]:
    if part["type"] != "image":
        return {"type": "input_text", "text": content_as_text([part])}
    image = Image.from_part(part)
    url = part.get("url") if image is None else f"data:{image.media_type};base64,{image.to_base64()}"
    return {"type": "input_image", "detail": "auto", "image_url": url}


def page_of_items(items: list[dict[str, Any]], page: PageQuery) -> dict[str, Any]:
    """A page of items in their envelope."""
    ordered = items if page.order == "asc" else items[::-1]
    start = next((index + 1 for index, item in enumerate(ordered) if item["id"] == page.after), 0)
    shown = ordered[start : start + page.limit]
    ends = {"first_id": shown[0]["id"], "last_id": shown[-1]["id"]} if shown else {"first_id": "", "last_id": ""}
    return {"object": "list", "data": shown, **ends, "has_more": start + page.limit < len(ordered)}
