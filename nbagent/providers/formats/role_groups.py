"""Consecutive messages of one side as a group, for formats in which the two sides alternate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from nbagent.core.messages import LLMMessage

#: The user's message before a conversation that begins with an answer.
OPENING = LLMMessage("user", "Hello.")


@dataclass(eq=False)
class RoleGroup:
    """What one side says in a row, encoded. Tool results come before anything else."""

    role: str
    results: list[bytes] = field(default_factory=list)
    others: list[bytes] = field(default_factory=list)
    messages: list[LLMMessage] = field(default_factory=list)

    @property
    def fragments(self) -> list[bytes]:
        """All of it, in the order in which it is sent."""
        return self.results + self.others


def group_by_role(messages: Sequence[LLMMessage], encode: Callable[[LLMMessage], bytes]) -> list[RoleGroup]:
    """The groups, each of role `"assistant"` or `"user"`, without system messages and messages that say nothing.

    The user begins: if the conversation begins with an answer, such as a greeting, "Hello." is put before it.
    """
    groups: list[RoleGroup] = []
    for message in messages:
        if message.role == "system" or not (fragment := encode(message)):
            continue
        role = "assistant" if message.role == "assistant" else "user"
        if not groups or groups[-1].role != role:
            groups.append(RoleGroup(role))
        groups[-1].messages.append(message)
        (groups[-1].results if message.role == "tool" else groups[-1].others).append(fragment)
    if groups and groups[0].role == "assistant":
        groups.insert(0, RoleGroup("user", others=[encode(OPENING)]))
    return groups
