"""The conversation's history: system message first, trimmed by whole turns, repaired before each send."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from nbagent.core.messages import LLMMessage, Usage, as_messages, is_message, listed
from nbagent.core.repair import repair

#: After a trim the history has this share of its limit, so that the next sends keep one prefix (prompt caches).
TRIM_TO = 0.75
#: Rule of thumb until the vendor has counted: characters per token, and tokens of an image.
CHARS_PER_TOKEN = 4
IMAGE_TOKENS = 1_000


class ContextManager:
    """History with limits. `max_messages` counts without the system message; `max_tokens` as the vendor counts.

    >>> context = ContextManager(max_messages=20)
    >>> context.set_system_message("You are brief.")
    >>> context.add_message(LLMMessage("user", "Hello"))
    >>> [message.role for message in context.messages]
    ['system', 'user']
    """

    def __init__(self, max_messages: int | None = None, max_tokens: int | None = None) -> None:
        for name, value in (("max_messages", max_messages), ("max_tokens", max_tokens)):
            if value is not None and value < 1:
                raise ValueError(f"{name}={value!r}: give a number from 1 up, or None for no limit")
        self.max_messages = max_messages
        self.max_tokens = max_tokens
        #: The live history; what you change here is what the model reads next.
        self.messages: list[LLMMessage] = []
        self._valid: list[LLMMessage] = []  # the leading messages that were repaired already
        self._counted: tuple[int, int] = (0, 0)  # (messages, tokens) at the vendor's last count

    def set_system_message(self, content: str | None) -> None:
        """Replace the system message; None removes it."""
        rest = [m for m in self.messages if m.role != "system"]
        self.messages[:] = ([LLMMessage("system", content)] if content else []) + rest

    @property
    def system_message(self) -> str | None:
        """The text of the system message, or None."""
        return next((m.text for m in self.messages if m.role == "system"), None)

    def add_message(self, message: LLMMessage) -> None:
        """Append one message."""
        self.messages.append(message)

    def take(self, message: Any) -> list[LLMMessage]:
        """What was passed to `chat`, as messages: a list of messages replaces the history, all else is appended."""
        items = listed(message)
        messages = as_messages(message if items is None else items)
        if items is not None and any(map(is_message, items)):
            self.replace_history(messages)
        else:
            self.messages.extend(messages)
        return messages

    def replace_history(self, messages: Iterable[LLMMessage]) -> None:
        """Other messages in place of the history; the system message stays, unless they bring their own."""
        new = list(messages)
        if not any(m.role == "system" for m in new):
            new = [m for m in self.messages if m.role == "system"] + new
        self.messages[:] = new
        self._counted = (0, 0)

    def clear(self) -> None:
        """Forget the conversation, keep the system message."""
        self.replace_history([])

    def undo(self, to: LLMMessage | None = None) -> list[LLMMessage]:
        """Take back the last turn: everything from the last user message on, or from `to` on. Returns it."""
        starts = [i for i, m in enumerate(self.messages) if (m.role == "user" if to is None else m is to)]
        if not starts:
            return []
        removed = self.messages[starts[-1] :]
        del self.messages[starts[-1] :]
        self._counted = (0, 0)
        return removed

    def copy(self) -> ContextManager:
        """An independent history with the same messages and limits."""
        other = ContextManager(self.max_messages, self.max_tokens)
        other.messages = list(self.messages)
        return other

    def get_tokens(self) -> int:
        """Tokens of the history: the vendor's last count, plus an estimate of what came since."""
        counted, tokens = self._counted
        if counted > len(self.messages):
            counted, tokens = 0, 0
        return tokens + sum(map(estimate_tokens, self.messages[counted:]))

    def count(self, usage: Usage) -> None:
        """Take over what the vendor counted for the history as it stands (its answer included)."""
        if usage.total_tokens:
            self._counted = (len(self.messages), usage.total_tokens)

    def prepare(self) -> str:
        """Repair and trim the history in place, before a send. Returns what was done, `""` for nothing."""
        done = []
        known = len(self._valid)
        if self.messages[:known] != self._valid:  # identical objects compare at once
            known = 0
        repaired = repair(self.messages, valid=known)
        if repaired != self.messages:
            done.append("repaired the history")
            self.messages[:] = repaired
        if dropped := self._trim():
            done.append(f"trimmed {dropped} old messages")
        self._valid = list(self.messages)
        return ", ".join(done)

    def _trim(self) -> int:
        """Remove the oldest whole turns until both limits hold with some room; never the last turn."""
        if not self._over(1.0):
            return 0
        before = len(self.messages)
        while self._over(TRIM_TO):
            start = 1 if self.messages[0].role == "system" else 0
            users = [i for i, m in enumerate(self.messages) if m.role == "user" and i > start]
            if not users:
                break
            del self.messages[start : users[0]]
            self._counted = (0, 0)
        return before - len(self.messages)

    def _over(self, share: float) -> bool:
        messages = sum(m.role != "system" for m in self.messages)
        return bool(
            (self.max_messages and messages > self.max_messages * share)
            or (self.max_tokens and self.get_tokens() > self.max_tokens * share)
        )


def estimate_tokens(message: LLMMessage) -> int:
    """A rough count, used only until the vendor has counted."""
    images = 0 if isinstance(message.content, str) else sum(p.get("type") == "image" for p in message.content)
    chars = len(message.text) + sum(len(c.name) + len(str(c.arguments)) for c in message.tool_calls or [])
    return 4 + chars // CHARS_PER_TOKEN + images * IMAGE_TOKENS
