"""Where the breakpoints of Anthropic's prompt cache stand. Format: https://docs.anthropic.com/en/docs/prompt-caching

A request may hold four, and none may last longer than one before it. Those that the user sets, in a content part or a
tool, stay as they are; ours take the places that are left: the last turn (what came before is read, what is new is
written), the system prompt, the turn before, the tools.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nbagent.providers.formats.role_groups import Turn

MOST = 4


def ttl_of(holder: Any) -> str | None:
    """How long the user wants this block, tool or part to be kept; None where no breakpoint is on it.

    >>> ttl_of({"type": "text", "text": "long", "cache_control": {"type": "ephemeral"}})
    '5m'
    """
    mark = holder.get("cache_control") if isinstance(holder, Mapping) else None
    if not mark:
        return None
    return (mark.get("ttl") or "5m") if isinstance(mark, Mapping) else "5m"


def mark_of(ttl: str) -> dict[str, str]:
    """A breakpoint; five minutes are what it means without a word."""
    return {"type": "ephemeral"} | ({} if ttl == "5m" else {"ttl": ttl})


def breakpoints(head: Mapping[str, Any], turns: Sequence[Turn], ttl: str) -> dict[Any, str]:
    """Our own breakpoints and how long each lasts, by place: `"tools"`, `"system"`, or the turn.

    >>> breakpoints({"system": [{"type": "text", "text": "Be brief."}]}, [], "1h")
    {'system': '1h'}
    """
    prompt = [*_in_head(head, "tools"), *_in_head(head, "system"), *_in_turns(turns)]
    if last := ttl_of(head):
        prompt.append((None, last))
    left = MOST - sum(kept is not None for _, kept in prompt)
    free = [place for place, kept in prompt if kept is None]
    users = [place for place in free if isinstance(place, Turn)]
    wanted = [*users[-1:], "system", *users[-2:-1], "tools"]
    chosen = [place for place in wanted if place in free][: max(left, 0)]
    return {place: fit for place in chosen if (fit := _fitting(prompt, place, ttl))}


def _in_head(head: Mapping[str, Any], name: str) -> Sequence[tuple[Any, str | None]]:
    """The user's breakpoints in this part of the head, or the place for ours."""
    items = head.get(name)
    if not isinstance(items, Sequence) or isinstance(items, str) or not items:
        return []
    return [(None, kept) for item in items if (kept := ttl_of(item))] or [(name, None)]


def _in_turns(turns: Sequence[Turn]) -> list[tuple[Any, str | None]]:
    """The same for each turn of the user's side."""
    places: list[tuple[Any, str | None]] = []
    for turn in turns:
        if turn.role == "user":
            lists = [message.content for message in turn.messages if not isinstance(message.content, str)]
            places += [(None, kept) for parts in lists for part in parts if (kept := ttl_of(part))] or [(turn, None)]
    return places


def _fitting(prompt: Sequence[tuple[Any, str | None]], place: Any, ttl: str) -> str | None:
    """How long ours may last between the user's: not longer than one before; None where one after lasts longer."""
    at = next(index for index, (here, kept) in enumerate(prompt) if kept is None and here == place)
    if any(kept == "5m" for _, kept in prompt[:at]):
        ttl = "5m"
    if ttl == "5m" and any(kept == "1h" for _, kept in prompt[at:]):
        return None
    return ttl
