"""The conversation's history: system message first, repaired before each send, and made shorter where it has limits.

What goes, goes whole: the oldest turns, then the oldest rounds (calls and their results) of the turn that goes on. So
the history starts with a user's message and no result ever stands without its call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from nbagent.core.content.images import content_parts
from nbagent.core.history.repair import CONTINUE, is_blank, repair
from nbagent.core.inputs import as_messages, input_items, is_message
from nbagent.core.messages import LLMMessage, Usage, new_id
from nbagent.errors import ConfigurationError

#: After a trim the history has this share of its limit, so that the next sends keep one prefix (prompt caches).
TRIM_TO = 0.75
#: How a summary of what was dropped begins.
SUMMARY_INTRODUCTION = "Summary of our conversation so far:\n\n"
#: Rule of thumb until the vendor has counted: characters per token, and tokens of an image.
CHARS_PER_TOKEN = 4
IMAGE_TOKENS = 1_000


class ContextManager:
    """History with limits. `max_messages` counts without the system message; `max_tokens` as the vendor counts.

    Over a limit the oldest turns are dropped (`strategy="trim"`), or the model sums them up first, in a request of its
    own (`"summarise"`). Pinned messages, and the turns they belong to, stay.

    >>> context = ContextManager(max_messages=20)
    >>> context.set_system_message("You are brief.")
    >>> context.add_message(LLMMessage("user", "Hello"))
    >>> [message.role for message in context.messages]
    ['system', 'user']
    """

    def __init__(
        self,
        max_messages: int | None = None,
        max_tokens: int | None = None,
        strategy: Literal["trim", "summarise"] = "trim",
    ) -> None:
        for name, value in (("max_messages", max_messages), ("max_tokens", max_tokens)):
            if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
                raise ConfigurationError(f"{name}={value!r}: give a number from 1 up, or None for no limit")
        if strategy not in ("trim", "summarise"):
            raise ConfigurationError(f'strategy={strategy!r}: give "trim" or "summarise"')
        self.max_messages = max_messages
        self.max_tokens = max_tokens
        self.strategy = strategy
        #: The live history; what you change here is what the model reads next.
        self.messages: list[LLMMessage] = []
        #: The id of the run that began this line of the conversation; None where the next run begins one.
        self.branch: str | None = None
        #: What the last `prepare` took out.
        self.trimmed: list[LLMMessage] = []
        self._valid: list[LLMMessage] = []  # the leading messages that were repaired already
        self._counted: tuple[int, int] = (0, 0)  # (messages, tokens) at the vendor's last count

    def set_system_message(self, content: str | None) -> None:
        """Replace the system message; None removes it."""
        if content is not None and not isinstance(content, str):
            raise ConfigurationError(f"the system prompt {content!r:.60} is a {type(content).__name__}: give a text")
        rest = [m for m in self.messages if m.role != "system"]
        self.messages[:] = ([LLMMessage("system", content)] if content else []) + rest

    @property
    def system_message(self) -> str | None:
        """The text of the system message, or None."""
        return next((m.text for m in self.messages if m.role == "system"), None)

    def add_message(self, message: LLMMessage | Mapping[str, Any] | str) -> None:
        """Append one message: as itself, as a dict with its role and content, or as a text that the user says."""
        self.messages += [message] if isinstance(message, LLMMessage) else as_messages(message)

    def add_input(self, message: Any) -> list[LLMMessage]:
        """What was passed to `chat`, as messages: a list of messages replaces the history, all else is appended.

        A question without content raises ConfigurationError and changes nothing: `repair` would leave it out, and the
        model would be asked to go on from its own last answer.
        """
        items = input_items(message)
        given = as_messages(message if items is None else items)
        # a message from another conversation, or from an earlier question, counts as a new one
        messages = [each if each.role == "system" else each.replace(message_id=new_id("msg")) for each in given]
        if not messages or (messages[-1].role == "user" and is_blank(messages[-1])):
            asked = messages[-1].content if messages else message
            raise ConfigurationError(
                f"The question {asked!r:.60} is empty. Write what you want to know or have done; to let the model go "
                'on where it stopped, ask "Continue."'
            )
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
        self._diverge()

    def clear(self) -> None:
        """Forget the conversation, keep the system message."""
        self.replace_history([])

    def undo(self, to: LLMMessage | None = None) -> list[LLMMessage]:
        """Take back the last turn: everything from the last user message on, or from `to` on. Returns it.

        The summary of turns that were dropped stays: it is no turn.
        """
        starts = [i for i, m in enumerate(self.messages) if (m.opens_turn if to is None else m is to)]
        if not starts:
            return []
        removed = self.messages[starts[-1] :]
        del self.messages[starts[-1] :]
        self._diverge()
        return removed

    def pin(self, message: int | LLMMessage, pinned: bool = True) -> None:
        """Keep a message, given as itself or by its index in `messages`, whatever else is dropped."""
        index = self._index(message)
        self.messages[index] = self.messages[index].replace(pinned=pinned)

    def edit(self, message: int | LLMMessage, content: Any) -> None:
        """Give a message, named by itself or by its index in `messages`, another content; calls and results stay.

        `content` is a text, an image, or a list of texts, images and content parts, as for `chat`. What the message's
        vendor wanted back, such as thinking, goes: it belongs to other words. Nothing but white space in place of
        nothing changes nothing.
        """
        index = self._index(message)
        new = content if isinstance(content, str) else content_parts(input_items(content) or [content])
        known = self.messages[index]
        edited = known.replace(content=new, provider_extras=None, message_id=None)
        if new != known.content and not (is_blank(known) and is_blank(edited)):
            self.messages[index] = edited
            self._diverge()

    def _diverge(self) -> None:
        """What was said is not what the next run goes on from: the vendor's count is void, a new branch begins."""
        self._counted = (0, 0)
        self.branch = None

    def _index(self, message: int | LLMMessage) -> int:
        if isinstance(message, int):
            if not -len(self.messages) <= message < len(self.messages):
                raise IndexError(f"there is no message {message}: the history has {len(self.messages)}")
            return message % len(self.messages)
        if not isinstance(message, LLMMessage):
            raise ConfigurationError(f"{message!r:.60} is no message: give one of `messages`, or its index there")
        found = next((index for index, known in enumerate(self.messages) if known is message), None)
        if found is None:
            raise ValueError(f"this {message.role} message is not in the history: take it from `messages`")
        return found

    def copy(self) -> ContextManager:
        """An independent history with the same messages and limits."""
        other = ContextManager(self.max_messages, self.max_tokens, self.strategy)
        other.messages = list(self.messages)
        other._counted = self._counted
        return other

    def get_tokens(self) -> int:
        """Tokens of the history: the vendor's last count, plus an estimate of what came since."""
        counted, tokens = self._counted if self.has_vendor_count else (0, 0)
        return tokens + sum(map(estimate_tokens, self.messages[counted:]))

    def __repr__(self) -> str:
        limits = {"max_messages": self.max_messages, "max_tokens": self.max_tokens}
        set_ = [f", {name}={value}" for name, value in limits.items() if value]
        return f"<ContextManager {len(self.messages)} messages, about {self.get_tokens()} tokens{''.join(set_)}>"

    @property
    def has_vendor_count(self) -> bool:
        """Whether the vendor's count, in which its tools are included, says something of this history."""
        return 0 < self._counted[0] <= len(self.messages)

    def record_usage(self, usage: Usage) -> None:
        """Take over what the vendor counted for the history as it stands (its answer included)."""
        if usage.total_tokens:
            self._counted = (len(self.messages), usage.total_tokens)

    def prepare(self) -> str:
        """Repair and trim the history in place, before a send. Returns what was done, `""` for nothing."""
        done = []
        known = len(self._valid)
        if self.messages[:known] != self._valid:  # identical objects compare at once
            known = 0
        repaired = repair(self.messages, valid=known) or [CONTINUE]  # a tool may have cleared it
        if repaired != self.messages:
            done.append("repaired the history")
            self.messages[:] = repaired
        self.trimmed = self.messages_to_drop()
        if self.trimmed:
            self.drop(self.trimmed)
            done.append(f"trimmed {len(self.trimmed)} old messages")
        self._valid = list(self.messages)
        return ", ".join(done)

    def messages_to_drop(self) -> list[LLMMessage]:
        """The messages that must go so that both limits hold with some room; none where they hold now."""
        if not self.max_messages and not self.max_tokens:
            return []
        messages = sum(m.role != "system" for m in self.messages)
        tokens = self.get_tokens() if self.max_tokens else 0
        if self._holds(messages, tokens, 1.0):
            return []
        estimated = sum(map(estimate_tokens, self.messages)) or 1
        going: list[LLMMessage] = []
        for group in self._droppable():
            if self._holds(messages, tokens, TRIM_TO):
                break
            going += group
            messages -= len(group)
            tokens -= round(sum(map(estimate_tokens, group)) * self.get_tokens() / estimated)
        return going

    def split_at_current_turn(self, messages: Sequence[LLMMessage]) -> list[list[LLMMessage]]:
        """Messages of the turns that are over, and those of the one that goes on: each part has its own summary.

        One that is nothing but a summary is left out: summed up again it would win nothing.
        """
        current = set(map(id, _split(self.messages, _opens_turn)[-1])) if self.messages else set()
        parts = [[m for m in messages if (id(m) in current) is goes_on] for goes_on in (False, True)]
        return [part for part in parts if not all(m.is_summary for m in part)]

    def drop(self, messages: Sequence[LLMMessage], summary: str = "") -> None:
        """Take these messages out; a summary of them takes their place, as a user's message that opens no turn.

        It stands behind the system message, or, where all of them belong to the last turn, behind its question. What
        stays is estimated in the vendor's measure, as far as it has counted.
        """
        scale = self.get_tokens() / (sum(map(estimate_tokens, self.messages)) or 1)
        going = set(map(id, messages))
        kept = [m for m in self.messages if id(m) not in going]
        if summary and len(kept) < len(self.messages):  # a conversation that was cleared meanwhile stays so
            turn = _split(self.messages, _opens_turn)[-1]
            question = turn[0] if going <= set(map(id, turn)) else None
            after_system = sum(m.role == "system" for m in kept)
            place = next((index + 1 for index, m in enumerate(kept) if m is question), after_system)
            kept.insert(place, LLMMessage("user", SUMMARY_INTRODUCTION + summary, is_summary=True))
        self.messages[:] = kept
        self._counted = (len(kept), round(sum(map(estimate_tokens, kept)) * scale))

    def _holds(self, messages: int, tokens: int, share: float) -> bool:
        return not (
            (self.max_messages and messages > self.max_messages * share)
            or (self.max_tokens and tokens > self.max_tokens * share)
        )

    def _droppable(self) -> list[list[LLMMessage]]:
        """What can go, oldest first: whole turns, then rounds of the last turn, but for its last one."""
        said = [m for m in self.messages if m.role != "system"]
        turns = _split(said, _opens_turn)
        rounds = _split(turns[-1], _opens_round)[1:-1] if turns else []
        return [group for group in [*turns[:-1], *rounds] if not any(m.pinned for m in group)]


def _opens_turn(message: LLMMessage) -> bool:
    return message.opens_turn


def _opens_round(message: LLMMessage) -> bool:
    return message.role == "assistant" or message.is_summary


def _split(messages: Sequence[LLMMessage], opens: Callable[[LLMMessage], bool]) -> list[list[LLMMessage]]:
    """Groups that each begin with a message that opens one, and what comes before the first."""
    groups: list[list[LLMMessage]] = []
    for message in messages:
        if opens(message) or not groups:
            groups.append([])
        groups[-1].append(message)
    return groups


def estimate_tokens(message: LLMMessage) -> int:
    """A rough count, used only until the vendor has counted."""
    images = 0 if isinstance(message.content, str) else sum(p.get("type") == "image" for p in message.content)
    chars = len(message.text) + sum(len(c.name) + len(str(c.arguments)) for c in message.tool_calls or [])
    return 4 + chars // CHARS_PER_TOKEN + images * IMAGE_TOKENS
