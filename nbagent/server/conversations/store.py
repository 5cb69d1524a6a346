"""The guarantees of a conversation store, and the code that all stores share.

All data belongs to an owner and is invisible to other owners. Only one turn of a conversation runs at a time. This turn
has a *lease*, which a heartbeat renews and which expires if the process dies. Other turns wait, in order of arrival
within a process. A turn's changes are saved atomically: the messages, their cost, and the answer for repeated requests.
A process that was paused for longer than its lease can no longer save its turn if another process has taken over.

Times are Unix seconds.
"""

from __future__ import annotations

import asyncio
import json
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass, field, fields, replace
from secrets import token_hex
from typing import Any
from weakref import WeakValueDictionary

from nbagent.checks import check_number, invalid, is_number
from nbagent.core.content.marks import before_attachments
from nbagent.core.history.saved import as_data, messages_from
from nbagent.core.messages import LLMMessage, well_formed
from nbagent.errors import StoreError, TurnLostError
from nbagent.text import shortened

#: The characters of a conversation's title.
TITLE_CHARS = 80

#: The seconds between two checks of a lease or a decision: at first, and at most.
_FIRST_PAUSE, _LAST_PAUSE = 0.01, 0.25

#: The stored fields of a conversation, besides its owner, id and messages.
FIELDS = ("title", "created", "updated", "dollars", "tokens", "message_count")

#: The prefixes of notes with waiting calls, and with the decisions on them.
_ASKED, _DECIDED = "approval:", "decision:"


@dataclass(frozen=True, slots=True)
class Spent:
    """The cost of runs in US dollars, and the sum of their input and output tokens. Unknown prices count as 0.

    >>> Spent(0.25, 100) + Spent(0.5, 20)
    Spent(dollars=0.75, tokens=120)
    """

    dollars: float = 0.0
    tokens: int = 0

    def __add__(self, other: Spent) -> Spent:
        return Spent(self.dollars + other.dollars, self.tokens + other.tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """A conversation. `title` is the start of its first prompt. In a `Page`, a conversation has no messages."""

    id: str
    owner: str = field(repr=False)
    title: str
    created: float
    updated: float
    spent: Spent
    message_count: int
    messages: tuple[LLMMessage, ...] = ()
    #: The recorded rows of its turns, as passed to `save`.
    recorded: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class Page:
    """Some of an owner's conversations, most recently changed first. `next` is the cursor of the next page, or None."""

    conversations: list[Conversation]
    next: str | None


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """The first answer to a request with an idempotency key.

    `fingerprint` shows whether a second request with this key is identical to the first. `body` is opaque to the store.
    """

    key: str
    fingerprint: str
    body: str


@dataclass(frozen=True, slots=True)
class Decision:
    """A person's decision on a call. `arguments` replace the model's; the model reads `reason`."""

    approved: bool
    arguments: dict[str, Any] | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingCall:
    """A tool call that waits for a person's decision until it expires. `decision` is None while it waits."""

    id: str
    owner: str = field(repr=False)
    conversation_id: str
    run_id: str
    tool_call_id: str
    tool: str
    arguments: dict[str, Any]
    created: float
    expires: float
    decision: Decision | None = None


@dataclass(slots=True)
class Lease:
    """An exclusive right, such as the right to run a conversation's next turn. `lost` completes when another process
    takes the lease or the conversation is deleted.

    The lease of a turn contains the conversation, or None if the conversation is new.
    """

    owner: str
    name: str
    ticket: str
    lost: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    conversation_id: str = ""
    conversation: Conversation | None = None
    heartbeat: asyncio.Task[None] | None = None
    is_saved: bool = False

    def lose(self) -> None:
        """Notify the holder that the lease is lost. The holder's run must end, since it can't be saved."""
        if not self.lost.done():
            self.lost.set_result(None)


@dataclass(frozen=True, slots=True)
class Change:
    """A turn's change to its conversation: the new `info`, and the messages `added` (as JSON) after the first `kept`
    messages.
    """

    lease: Lease
    info: Conversation
    before: int
    kept: int
    added: list[str]


class ConversationStore(ABC):
    """Conversations with their turns, spending, answers and approvals. Each store implements the abstract methods.

    - `lease_s`: the seconds after which another process can take over a dead process's turn
    - `ttl_s`: the seconds from a conversation's last change to its deletion; None keeps conversations forever
    - `answer_ttl_s`: the seconds for which a repeated request receives the first answer

    All methods raise `StoreError` if the store can't be read or written.

    ```python
    store = open_store("sqlite:///conversations.sqlite")
    await store.open()
    async with store.turn(owner, conversation_id) as turn:
        before = turn.conversation.messages if turn.conversation else ()
        await store.save(owner, Spent(0.01, 300), turn=turn, messages=[*before, question, answer])
    await store.aclose()
    ```
    """

    def __init__(self, *, lease_s: float = 10.0, ttl_s: float | None = None, answer_ttl_s: float = 86_400.0) -> None:
        check_number("lease_s", lease_s, above=0)
        check_number("ttl_s", ttl_s, above=0, optional=True)
        check_number("answer_ttl_s", answer_ttl_s, above=0)
        self.lease_s = lease_s
        self.ttl_s = ttl_s
        self.answer_ttl_s = answer_ttl_s
        #: Locks that queue this process's turns in order of arrival, and its leases.
        self._locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()
        self._held: dict[tuple[str, str], Lease] = {}

    # -- conversations ------------------------------------------------------------------------------------------------

    @abstractmethod
    async def open(self) -> None:
        """Connect, and create missing tables. Raises ConfigurationError if there is other data at the address."""

    @abstractmethod
    async def aclose(self) -> None:
        """Disconnect. A second call does nothing."""

    @abstractmethod
    async def get(self, owner: str, conversation_id: str) -> Conversation | None:
        """Return a conversation, or None if the owner has none with this id."""

    @abstractmethod
    async def page(self, owner: str, limit: int = 20, after: str | None = None) -> Page:
        """Return some of the owner's conversations, most recently changed first. `after` is the previous page's cursor.

        Raises ConfigurationError for an invalid cursor.
        """

    async def delete(self, owner: str, conversation_id: str) -> bool:
        """Delete a conversation; return False if there was none. Its cost still counts towards its owner's spending.

        A running turn loses its lease and can no longer save.
        """
        deleted = await self._delete(owner, conversation_id, _turn_of(conversation_id))
        if (lease := self._held.get((owner, _turn_of(conversation_id)))) is not None:
            lease.lose()
        return deleted

    @abstractmethod
    async def spent(self, owner: str) -> Spent:
        """Return the cost of all runs of the owner."""

    # -- turns --------------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def turn(
        self, owner: str, conversation_id: str, busy: Callable[[], Awaitable[None]] | None = None
    ) -> AsyncIterator[Lease]:
        """Wait for the exclusive right to run a conversation's next turn, across all processes.

        While another run has the turn, `busy` is called once or several times. It may raise an error to stop waiting.
        """
        lease = Lease(owner, _turn_of(conversation_id), token_hex(8), conversation_id=conversation_id)
        async with self._exclusive(lease, busy):
            yield lease

    @asynccontextmanager
    async def request(self, owner: str, key: str) -> AsyncIterator[KeptAnswer | None]:
        """Start a request with an idempotency key. Yields the answer to the first request with this key, or None.

        While another request with the same key is being answered, this method waits, so a repeated request receives the
        same answer. If the first request fails or its process dies, the next request runs. Pass the new answer to
        `save`.
        """
        async with self._exclusive(Lease(owner, f"key:{key}", token_hex(8))):
            yield await self.answer(owner, key)

    async def answer(self, owner: str, key: str) -> KeptAnswer | None:
        """Return the kept answer to a request with this key, or None if there is none or it has expired."""
        text = await self._note(owner, answer_name(key))
        return None if text is None else KeptAnswer(**json.loads(text))

    async def save(
        self,
        owner: str,
        spent: Spent,
        *,
        turn: Lease | None = None,
        messages: Sequence[LLMMessage] = (),
        answer: KeptAnswer | None = None,
        recorded: Mapping[str, Any] | None = None,
    ) -> None:
        """Save all messages of the turn's conversation, the turn's cost, and the answer, in one atomic step.

        Without a turn, only the spending and the answer are saved. Raises `TurnLostError` if the turn is lost or the
        key already has an answer. Even then, the spending counts towards the owner's total.
        """
        if turn and turn.heartbeat:
            turn.heartbeat.cancel()
        change = _change(owner, spent, turn, messages, recorded) if turn else None
        saved = await self._save(owner, spent, change, answer)
        if saved is None and change:  # the stored messages expired during the turn
            change = replace(change, kept=0, added=_bodies(messages, change.info.recorded))
            saved = await self._save(owner, spent, change, answer)
        if not saved:
            if turn:
                turn.lose()
            raise TurnLostError(
                "This turn of the conversation can't be saved: the conversation was deleted, or the process was paused "
                "for so long that another one took over. Try again."
            )
        if turn:
            turn.is_saved = True

    # -- approvals ----------------------------------------------------------------------------------------------------

    async def ask(self, approval: WaitingCall) -> None:
        """Register a call that is waiting for a decision."""
        body = {f.name: getattr(approval, f.name) for f in fields(approval) if f.name != "decision"}
        await self._add_note(approval.owner, f"{_ASKED}{approval.id}", json.dumps(body), approval.expires)

    async def approval(self, owner: str, approval_id: str) -> WaitingCall | None:
        """Return a call, whether decided or still waiting, or None once it has expired."""
        text = await self._note(owner, f"{_ASKED}{approval_id}")
        return None if text is None else await self._asked(owner, text)

    async def approvals(self, owner: str, conversation_id: str | None = None) -> list[WaitingCall]:
        """Return the calls that wait for a decision, oldest first."""
        found = [await self._asked(owner, text) for text in await self._notes(owner, _ASKED)]
        waiting = [call for call in found if not call.decision and conversation_id in (None, call.conversation_id)]
        return sorted(waiting, key=lambda call: call.created)

    async def decide(self, owner: str, approval_id: str, decision: Decision) -> bool:
        """Approve or deny a call. Return False if it has already been decided, has expired, or does not exist."""
        approval = await self.approval(owner, approval_id)
        if approval is None:
            return False
        return await self._add_note(owner, f"{_DECIDED}{approval_id}", json.dumps(asdict(decision)), approval.expires)

    async def decision(self, approval: WaitingCall) -> Decision | None:
        """Wait for the decision on a call, in whichever process it is made. Return None if the call expires first."""
        pause = _FIRST_PAUSE
        while (found := await self.approval(approval.owner, approval.id)) is not None and found.decision is None:
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LAST_PAUSE)
        return found.decision if found is not None else None

    async def _asked(self, owner: str, text: str) -> WaitingCall:
        asked = WaitingCall(**json.loads(text))
        decided = await self._note(owner, f"{_DECIDED}{asked.id}")
        return asked if decided is None else replace(asked, decision=Decision(**json.loads(decided)))

    # -- for the stores -----------------------------------------------------------------------------------------------

    @abstractmethod
    async def _delete(self, owner: str, conversation_id: str, lease: str) -> bool:
        """Delete the conversation and the lease of this name."""

    @abstractmethod
    async def _save(self, owner: str, spent: Spent, change: Change | None, answer: KeptAnswer | None) -> bool | None:
        """Save. Return False if the lease is lost or the key has an answer; then only the spending is counted.

        Return None if the kept messages are missing; then nothing is saved.
        """

    @abstractmethod
    async def _add_note(self, owner: str, name: str, text: str, expires: float) -> bool:
        """Keep a text under a name until it expires; return False if the name is taken."""

    @abstractmethod
    async def _note(self, owner: str, name: str) -> str | None:
        """Return the text with this name, unless it has expired."""

    @abstractmethod
    async def _notes(self, owner: str, prefix: str) -> list[str]:
        """Return the texts whose names have this prefix."""

    @abstractmethod
    async def _take(self, lease: Lease) -> bool:
        """Take a free or expired lease; return False if another process has it."""

    @abstractmethod
    async def _renew(self, lease: Lease) -> bool:
        """Renew a lease; return False if it is lost."""

    @abstractmethod
    async def _release(self, lease: Lease) -> None:
        """End a lease, unless it is lost."""

    # -- leases -------------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _exclusive(self, lease: Lease, busy: Callable[[], Awaitable[None]] | None = None) -> AsyncIterator[None]:
        place = lease.owner, lease.name
        lock = self._locks.setdefault(place, asyncio.Lock())
        if busy and lock.locked():
            await busy()
        async with lock:
            try:
                pause = _FIRST_PAUSE
                while not await self._take(lease):  # another process has it
                    if busy:
                        await busy()
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, _LAST_PAUSE)
                self._held[place] = lease
                lease.heartbeat = asyncio.create_task(self._heartbeat(lease))
                try:
                    yield
                finally:
                    lease.heartbeat.cancel()
            finally:
                self._held.pop(place, None)
                if not lease.is_saved:
                    with suppress(StoreError):  # the lease expires by itself
                        await self._release(lease)

    async def _heartbeat(self, lease: Lease) -> None:
        """Renew the lease regularly. A store that fails now may recover before the lease expires."""
        while not lease.lost.done():
            await asyncio.sleep(self.lease_s / 3)
            with suppress(StoreError):
                if not await self._renew(lease):
                    lease.lose()


def answer_name(key: str) -> str:
    """Return the name under which the first answer to a request with this key is kept."""
    return f"answer:{key}"


def _turn_of(conversation_id: str) -> str:
    return f"conversation:{conversation_id}"


def _change(
    owner: str, spent: Spent, turn: Lease, messages: Sequence[LLMMessage], recorded: Mapping[str, Any] | None
) -> Change:
    before = turn.conversation
    kept = 0
    for old, new in zip(before.messages if before else (), messages, strict=False):
        if old is not new and old != new:
            break
        kept += 1
    now, newly = time.time(), (recorded,) if recorded else ()
    known = before.recorded if before else ()
    info = Conversation(
        id=turn.conversation_id,
        owner=owner,
        title=before.title if before else _title(messages),
        created=before.created if before else now,
        updated=now,
        spent=before.spent + spent if before else spent,
        message_count=len(messages),
        recorded=(*known, *newly),
    )
    before_count = before.message_count if before else 0
    return Change(turn, info, before_count, kept, _bodies(messages[kept:], newly if kept else info.recorded))


def _title(messages: Sequence[LLMMessage]) -> str:
    question = next((message.text for message in messages if message.opens_turn), "")
    return shortened(" ".join(before_attachments(question).split()), TITLE_CHARS)


def _bodies(messages: Sequence[LLMMessage], recorded: Sequence[Mapping[str, Any]]) -> list[str]:
    """Messages as JSON, each in one line. The first one also contains the recorded rows."""
    bodies = [as_data(message) for message in messages]
    if bodies and recorded:
        bodies[0]["recorded"] = list(recorded)
    return [well_formed(json.dumps(body, ensure_ascii=False, separators=(",", ":"))) for body in bodies]


def info_values(info: Conversation) -> tuple[str, float, float, float, int, int]:
    """Return a conversation's values for the stored `FIELDS`."""
    return info.title, info.created, info.updated, info.spent.dollars, info.spent.tokens, info.message_count


def info_from(owner: str, conversation_id: str, values: Sequence[Any]) -> Conversation:
    """Create a conversation without messages from the values of its `FIELDS`."""
    title, created, updated, dollars, tokens, message_count = values
    return Conversation(
        id=conversation_id,
        owner=owner,
        title=title,
        created=float(created),
        updated=float(updated),
        spent=Spent(float(dollars), int(tokens)),
        message_count=int(message_count),
    )


def with_messages(info: Conversation, texts: Sequence[str]) -> Conversation:
    """Return the conversation with messages parsed from JSON. Raises `StoreError` for an invalid message."""
    try:
        bodies = [json.loads(text) for text in texts]
        messages = messages_from(bodies)
    except (ValueError, RecursionError) as error:
        raise StoreError(f"A stored message can't be read: {error}. Did another program change it?") from None
    recorded = [rows for body in bodies for rows in body.get("recorded", ())]
    return replace(info, messages=tuple(messages), recorded=tuple(recorded))


def page_of(found: list[Conversation], limit: int) -> Page:
    """Return a page of the conversations `found`. If there is a next page, `found` has one more conversation than
    `limit`.
    """
    shown = found[:limit]
    return Page(shown, f"{shown[-1].updated!r}:{shown[-1].id}" if len(found) > limit else None)


def cursor_from(text: str) -> tuple[float, str]:
    """Return `(updated, id)` of a page's last conversation, read from the page's cursor. Raises ConfigurationError for
    an invalid cursor.
    """
    updated, colon, conversation_id = text.partition(":")
    with suppress(ValueError):
        if colon and is_number(value := float(updated)):
            return value, conversation_id
    raise invalid("after", text, "the cursor of a page", "Pass the previous page's `next`.")
