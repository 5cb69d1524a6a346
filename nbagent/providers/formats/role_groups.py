"""Groups consecutive messages from the same side, for formats in which the two sides alternate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from nbagent.core.messages import LLMMessage

#: The user's message before a conversation that starts with an answer.
OPENING = LLMMessage("user", "Hello.")


@dataclass(slots=True, eq=False)
class RoleGroup:
    """One side's consecutive messages, encoded."""

    role: str
    fragments: list[bytes]
    #: The content parts of its messages.
    parts: list[dict[str, Any]] = field(default_factory=list)


def group_by_role(messages: Sequence[LLMMessage], encode: Callable[[LLMMessage], bytes]) -> list[RoleGroup]:
    """The groups, with role `"assistant"` or `"user"`, without system messages or empty messages.

    The first group is always the user's: if a conversation starts with an answer, such as a greeting, "Hello." is
    inserted before it.
    """
    groups: list[RoleGroup] = []
    group = RoleGroup("", [])
    for message in messages:
        if message.role == "system" or not (fragment := encode(message)):
            continue
        role = "assistant" if message.role == "assistant" else "user"
        if group.role == role:
            group.fragments.append(fragment)
        else:
            groups.append(group := RoleGroup(role, [fragment]))
        if not isinstance(message.content, str):
            group.parts += message.content
    if groups and groups[0].role == "assistant":
        groups.insert(0, RoleGroup("user", [encode(OPENING)]))
    return groups
