"""Converts messages between AG-UI and nbagent. The client keeps the conversation and sends it with each prompt."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from ag_ui.core import types

from nbagent.core.content.images import image_part
from nbagent.core.history.history import without_drafts
from nbagent.core.json_text import json_text
from nbagent.core.messages import FunctionCall, LLMMessage, parse_arguments
from nbagent.errors import ConfigurationError


def read_messages(messages: Iterable[types.Message]) -> list[LLMMessage]:
    """Convert a client's conversation to messages, without thinking, activities or instructions.

    Raises `ConfigurationError` for content that is neither text nor an image.
    """
    read: list[LLMMessage] = []
    calls: dict[str | None, FunctionCall] = {}
    for message in messages:
        match message:
            case types.UserMessage():
                read.append(LLMMessage("user", _content(message.content)))
            case types.AssistantMessage():
                own = [_call(call) for call in message.tool_calls or ()]
                calls |= {call.id: call for call in own}
                read.append(LLMMessage("assistant", message.content or "", tool_calls=own or None))
            case types.ToolMessage(tool_call_id=call_id):
                name = calls[call_id].name if call_id in calls else None
                is_error = message.error is not None
                read.append(
                    LLMMessage("tool", _content(message.content), name, tool_call_id=call_id, is_error=is_error)
                )
    return _in_order(read, list(calls))


def _in_order(messages: list[LLMMessage], calls: list[str | None]) -> list[LLMMessage]:
    """The messages with results in the order of their calls. The client has them in order of arrival."""
    place = {name: number for number, name in enumerate(calls)}
    ordered: list[LLMMessage] = []
    for is_result, group in groupby(messages, lambda message: message.role == "tool"):
        found = list(group)
        ordered += sorted(found, key=lambda m: place.get(m.tool_call_id, 0)) if is_result else found
    return ordered


def read_instructions(given: types.RunAgentInput) -> str | None:
    """Return the client's instructions for the model: system and developer messages, and context."""
    texts = [m.content for m in given.messages if isinstance(m, types.SystemMessage | types.DeveloperMessage)]
    texts += [f"{item.description}: {item.value}" for item in given.context or ()]
    return "\n\n".join(texts) or None


def as_shown(messages: Sequence[LLMMessage], conversation_id: str) -> list[types.Message]:
    """Convert stored messages to AG-UI messages, without the users' images."""
    shown: list[types.Message] = []
    for number, message in enumerate(without_drafts(messages)):
        name = message.message_id or f"{conversation_id}_{number}"
        match message.role:
            case "user":
                shown.append(types.UserMessage(id=name, content=message.text))
            case "assistant":
                calls = [shown_call(str(call.id), call.name, call.arguments) for call in message.tool_calls or ()]
                shown.append(types.AssistantMessage(id=name, content=message.text or None, tool_calls=calls or None))
            case "tool":
                call_id, error = str(message.tool_call_id), message.text if message.is_error else None
                shown.append(types.ToolMessage(id=name, tool_call_id=call_id, content=message.text, error=error))
    return shown


def shown_call(call_id: str, name: str, arguments: dict[str, Any] | None) -> types.ToolCall:
    """Convert a tool call to a part of an AG-UI message."""
    return types.ToolCall(id=call_id, function=types.FunctionCall(name=name, arguments=json_text(arguments or {})))


def _call(call: types.ToolCall) -> FunctionCall:
    arguments, raw = parse_arguments(call.function.arguments)
    return FunctionCall(call.function.name, arguments, call.id, raw)


def _content(content: str | list[types.ContentPart]) -> Any:
    return content if isinstance(content, str) else [_part(part) for part in content]


def _part(part: types.ContentPart) -> dict[str, Any]:
    if isinstance(part, types.TextPart):
        return {"type": "text", "text": part.text}
    if isinstance(part, types.ImagePart):
        match part.source:
            case types.DataSource(value=data, mime_type=media_type):
                return image_part({"type": "image", "data": data, "media_type": media_type})
            case types.UrlSource(value=url):
                return image_part({"type": "image", "url": url})
    source = getattr(part, "source", None)
    kind = f"{part.type} from a {source.type} source" if source else part.type
    raise ConfigurationError(f"A message can't contain {kind}. Send text, or an image as data or as a URL.")
