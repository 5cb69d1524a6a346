"""What a conversation keeps of a response, for whoever asks for it later: texts, images, calls with their results.

Token counts, thinking and the fields of the request are not kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from nbagent.core.content.images import content_as_text, images_in
from nbagent.core.messages import LLMMessage
from nbagent.server.routes.openai.response_objects import (
    call_item,
    call_result,
    image_item,
    phase_of,
    response_object,
    text_part,
)


def stored_response(response_id: str, model: str, created: float, turn: Sequence[LLMMessage]) -> dict[str, Any]:
    """The response to the question that opens this turn."""
    status = "incomplete" if any(message.interrupted for message in turn) else "completed"
    output = list(_output(turn[1:]))
    return response_object(response_id, model, int(created)) | {"status": status, "output": output}


def _output(messages: Sequence[LLMMessage]) -> Iterator[dict[str, Any]]:
    results = {message.tool_call_id: message for message in messages if message.role == "tool"}
    for index, message in enumerate(messages):
        if message.role != "assistant":
            continue
        name = (message.message_id or f"msg_{index}").removeprefix("msg_")
        if message.text:
            yield {
                "type": "message",
                "id": f"msg_{name}",
                "status": "incomplete" if message.interrupted else "completed",
                "role": "assistant",
                "content": [text_part(message.text)],
                "phase": phase_of(bool(message.tool_calls)),
            }
        for number, image in enumerate(images_in(message.content)):
            yield image_item(f"ig_{name}_{number}", image)
        for number, call in enumerate(message.tool_calls or ()):
            result = results[call.id]
            item = call_item(f"mcp_{name}_{number}", call.name)
            yield item | call_result(call.arguments, content_as_text(result.content), result.is_error)
