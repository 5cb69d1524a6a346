"""The conversation's history. It is repaired before each request and shortened when it exceeds a limit.

Messages are dropped in whole groups: the oldest turns first, then the oldest rounds (tool calls with their results) of
the current turn. This way, the history always starts with a user message, and every result has its call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from operator import attrgetter
from threading import RLock
from typing import Any, Literal

from nbagent.checks import SHOWN_CHARS, check_choice, check_number, check_type
from nbagent.core.content.images import content_parts
from nbagent.core.history.branches import Branch, versions
from nbagent.core.history.repair import CONTINUE, is_blank, repair
from nbagent.core.inputs import as_messages, input_items, is_message
from nbagent.core.messages import LLMMessage, Usage, index_of, new_id
from nbagent.errors import AgentBusyError, ConfigurationError
from nbagent.text import shortened

#: Trimming reduces the history to this share of the limit, so the next requests can reuse the prompt cache.
TRIM_TO = 0.75
#: The default number of tokens after which a provider summarises.
COMPACT_AT = 150_000
#: How the summary of dropped messages begins.
SUMMARY_INTRODUCTION = "Summary of our conversation so far:\n\n"
#: Estimates until the provider has counted: characters per token, and tokens per image.
CHARS_PER_TOKEN = 4
IMAGE_TOKENS = 1_000
#: Tokens per page of a PDF: providers read its text and an image of it.
PAGE_TOKENS = 2_000


class ContextManager:
    """Manages the context that a model sees: a conversation's messages, kept within limits.

    This is not a Python context manager: it has no `with` block and nothing to close. Every agent has a
    `ContextManager` in `agent.context`. To set limits, pass your own, as in
    `Agent(context=ContextManager(max_messages=20))`.

    `max_messages` does not count the system message. `max_tokens` uses the provider's count. When a limit is exceeded,
    the oldest turns are dropped (`strategy="trim"`), or the model first summarises them in a separate request
    (`"summarise"`). Pinned messages and their turns are kept. With `"server"`, the provider itself summarises earlier
    messages once a request exceeds `max_tokens` (150,000 by default). The history stays complete, and later answers
    contain the provider's summary. If the provider does not support this for the model, or the limit is too low for it,
    `"summarise"` applies.

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
        strategy: Literal["trim", "summarise", "server"] = "trim",
    ) -> None:
        check_number("max_messages", max_messages, whole=True, minimum=1, optional=True)
        check_number("max_tokens", max_tokens, whole=True, minimum=1, optional=True)
        check_choice("strategy", strategy, ["trim", "summarise", "server"])
        if strategy == "server" and max_messages is not None:
            raise ConfigurationError("max_messages: strategy='server' counts tokens only. Pass max_tokens.")
        self.max_messages = max_messages
        self.max_tokens = COMPACT_AT if strategy == "server" and max_tokens is None else max_tokens
        self.strategy = strategy
        #: The live history: the model reads your changes in its next request.
        self.messages: list[LLMMessage] = []
        #: While an earlier prompt is answered again: the turns after it, which return to `messages` at the end.
        self.later: list[LLMMessage] = []
        self._current = Branch(new_id("conv"))
        self._branches = [self._current]
        self._switching = RLock()  # panels read branches while cells start them
        self._is_asked = False  # a prompt is being answered
        #: Messages dropped by the last `prepare`, and by `add_message` before it.
        self.trimmed: list[LLMMessage] = []
        self._dropped_by_hand: list[LLMMessage] = []
        self._valid: list[LLMMessage] = []  # the leading messages that are already repaired
        self._counted: tuple[int, int] = (0, 0)  # (messages, tokens) at the provider's last count

    def set_system_message(self, content: str | None) -> None:
        """Replace the system message; None removes it."""
        check_type("system prompt", content, str, optional=True)
        rest = [m for m in self.messages if m.role != "system"]
        self.messages[:] = ([LLMMessage("system", content)] if content else []) + rest

    @property
    def system_message(self) -> str | None:
        """The text of the system message, or None."""
        return next((m.text for m in self.messages if m.role == "system"), None)

    def add_message(self, message: LLMMessage | Mapping[str, Any] | str) -> None:
        """Append one message: an `LLMMessage`, a dict with role and content, or the text of a user message.

        If `max_messages` is exceeded and `strategy` is "trim", the oldest turns are dropped immediately. Any other
        shortening happens before the next request, when the tokens are counted.
        """
        self.messages += as_messages(message)
        count = sum(m.role != "system" for m in self.messages)
        if self.strategy == "trim" and self.max_messages and count > self.max_messages:
            oldest = self.messages_to_drop()
            self.drop(oldest)
            self._dropped_by_hand += oldest

    @contextmanager
    def asking(
        self, message: Any, replaces: LLMMessage | None = None, branch_at: LLMMessage | None = None
    ) -> Iterator[list[LLMMessage]]:
        """Add the input of `chat` to the history before a block that answers it. Yields the input as messages.

        If the history contains the prompt `replaces`, the new turn replaces the turn of that prompt. Later turns are
        hidden during the block and restored at its end. If the history contains the prompt `branch_at`, the new turn
        starts a branch at that prompt instead. If the block fails before any tool has run, the prompt is removed, and
        the replaced turn, the earlier branch or the replaced conversation is restored.
        """
        left, before, prompt = self.here, list(self.messages), list[LLMMessage]()
        conversation, branch = left.conversation_id, left.branch
        if index_of(branch_at, before) is not None:
            self._enter(Branch(conversation, left.messages))
            self._go_back(branch_at)
        replaced = self._go_back(replaces)
        self.later = replaced[next((at for at, each in enumerate(replaced) if at and each.opens_turn), len(replaced)) :]
        self._is_asked, asked_in = True, conversation
        try:
            prompt += self.add_input(message)
            asked_in = self._current.conversation_id
            yield prompt
        except Exception:
            if prompt:
                self.take_back(prompt[-1])
            raise
        finally:
            now, later, self.later = self._current, self.later, []
            if prompt and index_of(prompt[-1], self.messages) is not None:
                if later:
                    self.messages += later
                    now.branch = None
            elif now.conversation_id == asked_in and (replaced or now is not left or asked_in != conversation):
                left.conversation_id, left.branch = conversation, branch
                self._enter(left, keeps=False)
                self.messages[:] = before
            self._is_asked = False

    def add_input(self, message: Any) -> list[LLMMessage]:
        """Add the input of `chat`, and return it as messages. A list of messages replaces the history.

        An empty prompt raises `ConfigurationError` and changes nothing: `repair` would omit it, and the model would
        continue its own last answer.
        """
        items = input_items(message)
        given = as_messages(message if items is None else items)
        # a message from another conversation or an earlier prompt counts as a new one
        messages = [each if each.role == "system" else each.replace(message_id=new_id("msg")) for each in given]
        if not messages or (messages[-1].role == "user" and is_blank(messages[-1])):
            shown = shortened(repr(messages[-1].content if messages else message), SHOWN_CHARS)
            raise ConfigurationError(
                f'The prompt {shown} is empty. Write a question or a task, or "Continue." to let the model continue.'
            )
        if items is not None and any(map(is_message, items)):
            self.replace_history(messages)
        else:
            self.messages.extend(messages)
        return messages

    def replace_history(self, messages: Iterable[LLMMessage]) -> None:
        """Replace the history. The system message is kept unless the new messages include one."""
        new = list(messages)
        if not any(m.role == "system" for m in new):
            new = [m for m in self.messages if m.role == "system"] + new
        self.messages[:] = new
        self.later = []
        self._current.conversation_id = new_id("conv")
        self._start_branch()

    def clear(self) -> None:
        """Delete the conversation with all its branches, but keep the system message."""
        conversation = self._current.conversation_id
        self._current = Branch(conversation)
        self._branches = [*(each for each in self._branches if each.conversation_id != conversation), self._current]
        self.replace_history([])

    @property
    def here(self) -> Branch:
        """This history's current branch."""
        with self._switching:
            now = self._current
            now.messages = [message for message in [*self.messages, *self.later] if message.role != "system"]
            now.used = 1 + max((each.used for each in self._branches), default=0)
            return now

    @property
    def branches(self) -> list[Branch]:
        """This history's branches, including the current one, from all its conversations, oldest first."""
        return [self.here if each is self._current else each for each in self._branches]

    @property
    def conversations(self) -> list[Branch]:
        """The most recently used branch of each conversation, newest conversation first."""
        found: dict[str, Branch] = {}
        for branch in self.branches:
            if branch.used >= found.get(branch.conversation_id, branch).used:
                found[branch.conversation_id] = branch
        return list(found.values())[::-1]

    def versions(self, question: LLMMessage) -> list[Branch]:
        """Return a branch for each version of a prompt in this history, in the order in which the versions were first
        sent.

        The current branch contains the prompt itself. Pass one of the other branches to `switch` to continue with that
        version.
        """
        branches = [each for each in self.branches if each.conversation_id == self._current.conversation_id]
        is_here = index_of(question, self._current.questions) is not None
        return versions(question, self._current, branches) if is_here else []

    def new_conversation(self, *, after: LLMMessage | None = None) -> None:
        """Start another conversation with the same system message. The previous one stays in `conversations`.

        If `after` is a prompt in this history, the new conversation starts with the turns up to and including that
        prompt's. Raises `ConfigurationError` if the prompt is not in the history, and `AgentBusyError` while a prompt
        is being answered.
        """
        self._check_idle()
        messages = [] if after is None else self._up_to_answer(after)
        self._enter(Branch(new_id("conv"), messages))

    def _up_to_answer(self, question: LLMMessage) -> list[LLMMessage]:
        messages = self.here.messages
        start = index_of(question, messages)
        if start is None:
            raise ConfigurationError("This prompt is not in the history. Pass one of agent.conversation_history.")
        return messages[: next((at for at in range(start + 1, len(messages)) if messages[at].opens_turn), None)]

    def switch(self, branch: Branch) -> None:
        """Continue one of `branches`. In `trace.runs`, the next run belongs to that branch. The system message is kept.

        Raises `AgentBusyError` while a prompt is being answered.

        >>> agent.context.switch(agent.context.conversations[1])            # doctest: +SKIP
        """
        if branch not in self._branches:
            raise ValueError(f"{branch!r} is not a branch of this history. Pass one of agent.context.branches.")
        self._check_idle()
        self._enter(branch)

    def resume(self, branches: Sequence[Branch], here: Branch, then: Sequence[LLMMessage] = ()) -> None:
        """Continue `here`, one of the `branches` of an earlier kernel, followed by the messages `then`.

        The current branch is discarded. Earlier branches and the system message are kept.
        """
        self._check_idle()
        with self._switching:
            self._branches = [*branches, *(each for each in self._branches if each is not self._current)]
            self._enter(here, keeps=False)
            if then:
                self.messages += then
                here.branch = None

    def _check_idle(self) -> None:
        if self._is_asked:
            raise AgentBusyError("The agent is answering a prompt. Wait until it is done, or call agent.stop().")

    def _enter(self, branch: Branch, keeps: bool = True) -> None:
        """Continue another branch. The current one is kept if it has a prompt and `keeps` is true."""
        with self._switching:
            messages, is_kept = list(branch.messages), keeps and bool(self.here.questions)
            kept = [each for each in self._branches if each is branch or each is not self._current or is_kept]
            self._branches = [*kept, *([] if branch in kept else [branch])]
            self.messages[:] = [message for message in self.messages if message.role == "system"] + messages
            self._counted, self._current = (0, 0), branch

    def undo(self) -> list[LLMMessage]:
        """Remove and return the last turn, which is the last prompt and everything after it. Summaries of dropped turns
        are kept.
        """
        return self._go_back(next((message for message in reversed(self.messages) if message.opens_turn), None))

    def _go_back(self, question: LLMMessage | None) -> list[LLMMessage]:
        """Remove and return a prompt in this branch and everything after it."""
        if (start := index_of(question, self.messages)) is None:
            return []
        removed = self.messages[start:]
        del self.messages[start:]
        self._start_branch()
        return removed

    def take_back(self, question: LLMMessage) -> bool:
        """Remove a prompt that failed or was refused, with its answer so far. Returns whether it was removed.

        If the prompt stayed, it would appear twice when sent again. If tools have run for the prompt, nothing is
        removed, because the model must know what they did. The branch stays the same.
        """
        start = index_of(question, self.messages)
        if start is None or question.role != "user" or any(each.role == "tool" for each in self.messages[start:]):
            return False
        del self.messages[start:]
        return True

    def pin(self, message: int | LLMMessage, pinned: bool = True) -> None:
        """Keep a message when others are dropped. `message` is the message, or its index in `messages`."""
        index = self._index(message)
        self.messages[index] = replace(self.messages[index], pinned=pinned)  # sent unchanged

    def edit(self, message: int | LLMMessage, content: Any) -> None:
        """Replace the content of a message, but keep tool calls and results. `message` is the message, or its index in
        `messages`.

        `content` is a string, an image, or a list of strings, images and content parts, as for `chat`. Provider data
        such as thinking is removed, because it belongs to the old content. If the old and the new content are both
        blank, nothing changes.
        """
        index = self._index(message)
        new = content if isinstance(content, str) else content_parts(input_items(content) or [content])
        known = self.messages[index]
        edited = known.replace(content=new, provider_extras=None, message_id=None)
        if new != known.content and not (is_blank(known) and is_blank(edited)):
            self.messages[index] = edited
            self._start_branch()

    def _start_branch(self) -> None:
        """The history has changed: the next run starts a branch, and the provider's count no longer applies."""
        self._counted, self._current.branch = (0, 0), None

    def _index(self, message: int | LLMMessage) -> int:
        fix = "Pass one of `messages`, or its index there."
        check_type("message", message, int, LLMMessage, fix=fix)
        if isinstance(message, int):
            if not -len(self.messages) <= message < len(self.messages):
                raise IndexError(f"There is no message {message}: the history has length {len(self.messages)}. {fix}")
            return message % len(self.messages)
        if (found := index_of(message, self.messages)) is None:
            raise ValueError(f"This {message.role} message is not in the history. {fix}")
        return found

    def copy(self) -> ContextManager:
        """Return an independent history with the same messages and limits."""
        other = ContextManager(self.max_messages, self.max_tokens, self.strategy)
        other.messages = list(self.messages)
        other._counted = self._counted
        return other

    def get_tokens(self) -> int:
        """Return the tokens in the history: the provider's last count, plus an estimate for later messages."""
        counted, tokens = self._counted if self.has_provider_count else (0, 0)
        return tokens + sum(map(estimate_tokens, self.messages[counted:]))

    def __repr__(self) -> str:
        limits = {"max_messages": self.max_messages, "max_tokens": self.max_tokens}
        set_ = [f", {name}={value}" for name, value in limits.items() if value]
        return f"<ContextManager {len(self.messages)} messages, about {self.get_tokens()} tokens{''.join(set_)}>"

    @property
    def has_provider_count(self) -> bool:
        """Whether the provider has counted the tokens in this history. The provider's count includes the tool
        definitions.
        """
        return 0 < self._counted[0] <= len(self.messages)

    def record_usage(self, usage: Usage) -> None:
        """Record the provider's count for the current history, which ends with the provider's answer."""
        if usage.total_tokens:
            self._counted = (len(self.messages), usage.total_tokens)

    def prepare(self, trims: bool = True) -> str:
        """Repair the history before a request, and trim it if `trims` is true. Returns a note on the changes, or ""."""
        done = []
        known = len(self._valid)
        if self.messages[:known] != self._valid:  # fast: identical objects are equal
            known = 0
        repaired = repair(self.messages, valid=known) or [CONTINUE]  # a tool may have cleared the history
        if repaired != self.messages:
            done.append("repaired the history")
            self.messages[:] = repaired
        oldest = self.messages_to_drop() if trims else []
        if oldest:
            self.drop(oldest)
        self.trimmed = [*self._dropped_by_hand, *oldest]
        self._dropped_by_hand.clear()
        if self.trimmed:
            done.append(f"trimmed {len(self.trimmed)} old messages")
        self._valid = list(self.messages)
        return ", ".join(done)

    def messages_to_drop(self) -> list[LLMMessage]:
        """Return the messages whose removal brings the history well below both limits. There are none if neither limit
        is exceeded.
        """
        if not self.max_messages and not self.max_tokens:
            return []
        messages = sum(m.role != "system" for m in self.messages)
        tokens = self.get_tokens() if self.max_tokens else 0
        if self._is_within(messages, tokens, 1.0):
            return []
        scale = self._tokens_per_estimate()
        dropped: list[LLMMessage] = []
        for group in self._droppable():
            if self._is_within(messages, tokens, TRIM_TO):
                break
            dropped += group
            messages -= len(group)
            tokens -= round(sum(map(estimate_tokens, group)) * scale)
        return dropped

    def split_at_current_turn(self, messages: Sequence[LLMMessage]) -> list[list[LLMMessage]]:
        """Split messages into the finished turns and the current turn, which are summarised separately.

        A part that consists only of summaries is omitted, because summarising it again gains nothing.
        """
        current = set(map(id, (split_turns(self.messages) or [[]])[-1]))
        parts = [[m for m in messages if (id(m) in current) is is_current] for is_current in (False, True)]
        return [part for part in parts if not all(m.is_summary for m in part)]

    def drop(self, messages: Sequence[LLMMessage], summary: str = "") -> None:
        """Remove these messages. If there is a `summary`, a user message that contains it replaces them. That message
        does not start a turn.

        The summary follows the system message, or the current prompt if all of the messages belong to its turn. The
        tokens of the remaining messages are estimated, and the estimate is scaled to the provider's count if there is
        one.
        """
        scale = self._tokens_per_estimate()
        dropped = set(map(id, messages))
        kept = [m for m in self.messages if id(m) not in dropped]
        if summary and len(kept) < len(self.messages):  # not if the conversation has been cleared
            turn = split_turns(self.messages)[-1]
            question = turn[0] if dropped <= set(map(id, turn)) else None
            after_system = sum(m.role == "system" for m in kept)
            place = next((index + 1 for index, m in enumerate(kept) if m is question), after_system)
            kept.insert(place, LLMMessage("user", SUMMARY_INTRODUCTION + summary, is_summary=True))
        self.messages[:] = kept
        self._counted = (len(kept), round(sum(map(estimate_tokens, kept)) * scale))

    def _tokens_per_estimate(self) -> float:
        return self.get_tokens() / (sum(map(estimate_tokens, self.messages)) or 1)

    def _is_within(self, messages: int, tokens: int, share: float) -> bool:
        """Whether these numbers are within this share of the limits."""
        too_many = self.max_messages and messages > self.max_messages * share
        return not too_many and not (self.max_tokens and tokens > self.max_tokens * share)

    def _droppable(self) -> list[list[LLMMessage]]:
        """The droppable groups, oldest first: whole turns, then the rounds of the current turn except its last one."""
        turns = split_turns(self.messages)
        rounds = _split(turns[-1], lambda m: m.role == "assistant" or m.is_summary)[1:-1] if turns else []
        return [group for group in [*turns[:-1], *rounds] if not any(m.pinned for m in group)]


def split_turns(messages: Iterable[LLMMessage]) -> list[list[LLMMessage]]:
    """Split a history into turns at its user messages. System messages are omitted. Summaries don't start a turn."""
    return _split((m for m in messages if m.role != "system"), attrgetter("opens_turn"))


def without_drafts(messages: Sequence[LLMMessage]) -> Iterator[LLMMessage]:
    """Yield the messages that people read: all except rejected answers and the feedback that sent them back."""
    for number, message in enumerate(messages):
        is_sent_back = any(following.is_correction for following in messages[number + 1 : number + 2])
        if not (is_sent_back or message.is_correction):
            yield message


def _split(messages: Iterable[LLMMessage], opens: Callable[[LLMMessage], bool]) -> list[list[LLMMessage]]:
    """Split messages before each one that `opens` a group."""
    groups: list[list[LLMMessage]] = []
    for message in messages:
        if opens(message) or not groups:
            groups.append([])
        groups[-1].append(message)
    return groups


def estimate_tokens(message: LLMMessage) -> int:
    """Estimate the tokens of a message, until the provider has counted them."""
    parts = [] if isinstance(message.content, str) else message.content
    images = [part.get("type") for part in parts].count("image")
    pages = sum(int(part.get("pages") or 0) for part in parts if part.get("type") == "document")
    chars = len(message.text) + sum(len(c.name) + len(str(c.arguments)) for c in message.tool_calls or [])
    return 4 + chars // CHARS_PER_TOKEN + images * IMAGE_TOKENS + pages * PAGE_TOKENS
