"""The ids of responses. Each points to a turn of a conversation: the state after it is where the next one goes on."""

from __future__ import annotations

from collections.abc import Sequence

from nbagent.core.messages import LLMMessage

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
