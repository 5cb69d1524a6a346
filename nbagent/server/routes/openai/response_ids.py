"""The ids of responses. Each points to a turn of a conversation: the state after it is where the next one goes on."""

from __future__ import annotations

from collections.abc import Sequence

from nbagent.core.messages import LLMMessage, new_id

_RESPONSE, _MESSAGE = "resp_", "msg_"


def response_id(conversation_id: str, question_id: str) -> str:
    """The id of the response to a question of a conversation.

    >>> response_id("conv_1a", "msg_2b")
    'resp_conv_1a_2b'
    """
    return f"{_RESPONSE}{conversation_id}_{question_id.removeprefix(_MESSAGE)}"


def place_of(response: str) -> tuple[str, str]:
    """`(conversation_id, question_id)` of a response; both are "" if it has none.

    >>> place_of("resp_conv_1a_2b")
    ('conv_1a', 'msg_2b')
    """
    conversation_id, _, question_id = response.removeprefix(_RESPONSE).rpartition("_")
    is_one = response.startswith(_RESPONSE) and response.isascii()
    return (conversation_id, _MESSAGE + question_id) if is_one else ("", "")


def turn_of(messages: Sequence[LLMMessage], question_id: str) -> slice | None:
    """Where the turn is that a question opened; None if it is not there."""
    start = next((index for index, message in enumerate(messages) if message.message_id == question_id), None)
    if start is None:
        return None
    later = (index for index in range(start + 1, len(messages)) if messages[index].opens_turn)
    return slice(start, next(later, len(messages)))


def item_id(kind: str, conversation_id: str | None, message_id: str | None, number: int = 0) -> str:
    """The id of an item that a message holds, the first of its kind or a later one; made up if that is not stored.

    >>> item_id("mcp", "conv_1a", "msg_2b", 1)
    'mcp_conv_1a_2b_1'
    """
    if not conversation_id or not message_id:
        return new_id(kind)
    return f"{kind}_{conversation_id}_{message_id.removeprefix(_MESSAGE)}_{number}"


def conversation_of(item: str) -> str:
    """The conversation of an item; "" if it has none.

    >>> conversation_of("mcp_conv_1a_2b_1")
    'conv_1a'
    """
    _, _, place = item.partition("_")
    return place.rsplit("_", 2)[0] if item.isascii() and place.count("_") >= 2 else ""
