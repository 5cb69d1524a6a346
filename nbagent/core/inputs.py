"""Converts a user's input into `LLMMessage`s."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, get_args

from nbagent.checks import check_choice, invalid
from nbagent.core.content.images import Image, content_parts, is_image, unsupported_content
from nbagent.core.messages import LLMMessage, Role

#: The roles of system messages in newer OpenAI APIs and of tool messages in the oldest ones.
_ROLE_ALIASES: Mapping[Any, Role] = {"developer": "system", "function": "tool"}


class _FigureLike(Protocol):
    """A matplotlib figure, or a part of one."""

    def get_figure(self) -> Any: ...


class _PILImage(Protocol):
    def save(self, file: Any, image_format: str | None = None, /) -> None: ...


#: A string, an image, a content part or a whole message.
MessageItem = (
    str
    | bytes
    | bytearray
    | memoryview
    | os.PathLike[str]
    | io.IOBase
    | Image
    | _FigureLike
    | _PILImage
    | Mapping[str, Any]
    | LLMMessage
)
#: The input types of `Agent.chat`.
MessageInput = MessageItem | Sequence[MessageItem] | Iterator[MessageItem]


def as_messages(message: Any) -> list[LLMMessage]:
    """Convert the input of `Agent.chat`: a string, an image, a content part, a message, or a list of these.

    Raises `ConfigurationError` for anything else.

    >>> as_messages(["What is this?", {"type": "image", "url": "https://example.org/cat.png"}])[0].text
    'What is this?'
    """
    if isinstance(message, str):
        return [LLMMessage("user", message)]
    items = input_items(message)
    if items is None:
        items = [message]
    if not any(map(is_message, items)):
        return [LLMMessage("user", content_parts(items))] if items else []
    return [_as_message(item) for item in items]


def input_items(message: Any) -> list[Any] | None:
    """Return the items of a user's list, or None for a single text, message or image."""
    if isinstance(message, str | LLMMessage | Mapping) or is_image(message):
        return None
    if not isinstance(message, Sequence | Iterator):  # other iterables are data, such as a DataFrame
        raise unsupported_content(message)
    return list(message)


def is_message(item: Any) -> bool:
    """Whether an item is a whole message, not just part of one."""
    return isinstance(item, LLMMessage) or (isinstance(item, Mapping) and "role" in item)


def _as_message(item: Any) -> LLMMessage:
    """The item as a message with a known role, and with content parts if its content is a list."""
    if not is_message(item):
        fix = 'If one item is a message, all must be, as in {"role": "user", "content": "…"}.'
        raise invalid("message", item, "a message with a role", fix)
    try:
        message = item if isinstance(item, LLMMessage) else LLMMessage.from_dict(item)
    except (KeyError, TypeError, AttributeError) as error:
        fix = f"It can't be read: {error!r}."
        raise invalid("message", item, "a dict in the form of LLMMessage.to_dict()", fix) from None
    if message.role not in get_args(Role):
        role = _ROLE_ALIASES.get(message.role, message.role)
        check_choice("role", role, get_args(Role))
        message = message.replace(role=role)
    if isinstance(message.content, str):
        return message
    parts = content_parts(input_items(message.content) or [message.content]) if message.content else ""
    return message if parts == message.content else message.replace(content=parts)
