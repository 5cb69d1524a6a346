"""Consecutive messages of one side as one turn, for formats in which the two sides alternate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from nbagent.core.messages import LLMMessage

_OPENING = LLMMessage("user", "Hello.")


@dataclass(eq=False)
class Turn:
    """What one side says in a row, encoded. Results of tools come before anything else."""

    role: str
    results: list[bytes] = field(default_factory=list)
    others: list[bytes] = field(default_factory=list)
    messages: list[LLMMessage] = field(default_factory=list)

    @property
    def fragments(self) -> list[bytes]:
        """All of it, in the order in which it is sent."""
        return self.results + self.others


def turns_of(messages: Sequence[LLMMessage], encode: Callable[[LLMMessage], bytes]) -> list[Turn]:
    """The turns, by role `"assistant"` or `"user"`. System messages, and those with nothing to say, are left out.

    The user begins: where the conversation does not, as with a greeting, a word is put before it.
    """
    turns: list[Turn] = []
    for message in messages:
        if message.role == "system" or not (fragment := encode(message)):
            continue
        role = "assistant" if message.role == "assistant" else "user"
        if not turns or turns[-1].role != role:
            turns.append(Turn(role))
        turns[-1].messages.append(message)
        (turns[-1].results if message.role == "tool" else turns[-1].others).append(fragment)
    if turns and turns[0].role == "assistant":
        turns.insert(0, Turn("user", others=[encode(_OPENING)]))
    return turns
