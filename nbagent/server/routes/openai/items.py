"""The items of the Responses API, and their ids, which refer to messages in stored conversations.

A response is a turn of a conversation. The next response continues after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from fastapi import Query
from pydantic import BaseModel, Field

from nbagent.core.content.images import Image, content_as_text, images_in
from nbagent.core.history.history import without_drafts
from nbagent.core.json_text import json_text
from nbagent.core.messages import LLMMessage, new_id

#: The `server_label` of the tools, as if the agent were an MCP server.
SERVER_LABEL = "nbagent"
_RESPONSE, _MESSAGE = "resp_", "msg_"


def response_id(conversation_id: str, question_id: str) -> str:
    """Return the id of the response to a prompt of a conversation.

    >>> response_id("conv_1a", "msg_2b")
    'resp_conv_1a_2b'
    """
    return f"{_RESPONSE}{conversation_id}_{question_id.removeprefix(_MESSAGE)}"


def place_of(response: str) -> tuple[str, str]:
    """Return the `(conversation_id, question_id)` that a response id contains; both are "" if nbagent did not create
    the id.

    >>> place_of("resp_conv_1a_2b")
    ('conv_1a', 'msg_2b')
    """
    conversation_id, _, question_id = response.removeprefix(_RESPONSE).rpartition("_")
    is_one = response.startswith(_RESPONSE) and response.isascii()
    return (conversation_id, _MESSAGE + question_id) if is_one else ("", "")


def turn_of(messages: Sequence[LLMMessage], question_id: str) -> slice | None:
    """Return the slice of `messages` that is a prompt's turn, or None if the prompt is missing."""
    start = next((index for index, message in enumerate(messages) if message.message_id == question_id), None)
    if start is None:
        return None
    later = (index for index in range(start + 1, len(messages)) if messages[index].opens_turn)
    return slice(start, next(later, len(messages)))


def item_id(kind: str, conversation_id: str | None, message_id: str | None, number: int = 0) -> str:
    """Return the id of a message's item. If the message is not stored, the id is random.

    `number` distinguishes several items of the same kind for one message.

    >>> item_id("mcp", "conv_1a", "msg_2b", 1)
    'mcp_conv_1a_2b_1'
    """
    if not conversation_id or not message_id:
        return new_id(kind)
    return f"{kind}_{conversation_id}_{message_id.removeprefix(_MESSAGE)}_{number}"


def conversation_of(item: str) -> str:
    """Return the conversation id that an item id contains, or "" if there is none.

    >>> conversation_of("mcp_conv_1a_2b_1")
    'conv_1a'
    """
    _, _, place = item.partition("_")
    return place.rsplit("_", 2)[0] if item.isascii() and place.count("_") >= 2 else ""


def response_object(response: str, model: str, created: int) -> dict[str, Any]:
    """Return a response that is in progress and has no output yet."""
    given = {"id": response, "object": "response", "created_at": created, "model": model, "status": "in_progress"}
    unknown = dict.fromkeys(("error", "incomplete_details", "usage"))
    settings = {"background": False, "parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    return {**given, **unknown, **settings, "output": []}


def text_part(text: str) -> dict[str, Any]:
    """Return the content part for a text."""
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def phase_of(has_calls: bool) -> str:
    """Return the phase of a turn's text: commentary if tool calls follow, else the final answer."""
    return "commentary" if has_calls else "final_answer"


def call_item(item: str, name: str) -> dict[str, Any]:
    """Return the item of a tool call that runs on the server. Clients show it but, unlike a `function_call`, never run
    it.
    """
    call = {"type": "mcp_call", "id": item, "status": "in_progress", "server_label": SERVER_LABEL, "name": name}
    return {**call, "arguments": "", "output": None, "error": None}


def call_result(arguments: dict[str, Any], text: str, is_error: bool) -> dict[str, Any]:
    """Return the fields that a tool's result adds to the item of its call."""
    if is_error:
        error = {"type": "mcp_tool_execution_error", "content": [{"type": "text", "text": text}]}
        return {"arguments": json_text(arguments), "status": "failed", "error": error}
    return {"arguments": json_text(arguments), "status": "completed", "output": text}


def image_item(item: str, image: Image) -> dict[str, Any]:
    """Return the item of an image that the model generated."""
    return {"type": "image_generation_call", "id": item, "status": "completed", "result": image.to_base64()}


def stored_items(conversation_id: str, messages: Sequence[LLMMessage]) -> Iterator[dict[str, Any]]:
    """Yield the items of a conversation or of some turns: prompts, texts, images, and calls with their results.

    Answers that a check rejected are omitted.
    """
    results = {message.tool_call_id: message for message in messages if message.role == "tool"}
    for number, message in enumerate(without_drafts(messages)):
        name = message.message_id or f"msg_{number}"
        said = {"type": "message", "id": item_id("msg", conversation_id, name), "role": message.role}
        if message.opens_turn:
            content = message.content
            parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
            yield {**said, "status": "completed", "content": [_input_part(part) for part in parts]}
        if message.role != "assistant":
            continue
        if message.text:
            status = "incomplete" if message.interrupted else "completed"
            phase = phase_of(bool(message.tool_calls))
            yield {**said, "status": status, "content": [text_part(message.text)], "phase": phase}
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


class PageQuery(BaseModel):
    """The items to list: at most `limit`, in the given `order`, starting after the item `after`."""

    limit: int = Field(20, ge=1, le=100)
    order: Literal["asc", "desc"] = "desc"
    after: str | None = None


ItemsPage = Annotated[PageQuery, Query()]


def page_of_items(items: list[dict[str, Any]], page: PageQuery) -> dict[str, Any]:
    """Return a page of items in the API's list envelope."""
    ordered = items if page.order == "asc" else items[::-1]
    start = next((index + 1 for index, item in enumerate(ordered) if item["id"] == page.after), 0)
    shown = ordered[start : start + page.limit]
    ends = {"first_id": shown[0]["id"], "last_id": shown[-1]["id"]} if shown else {"first_id": "", "last_id": ""}
    return {"object": "list", "data": shown, **ends, "has_more": start + page.limit < len(ordered)}
