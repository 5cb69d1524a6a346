"""Conversations in memory: for one process, and until it ends."""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import replace
from typing import Any

from typing_extensions import override

from nbagent.server.conversations.store import (
    Change,
    Conversation,
    ConversationInfo,
    ConversationStore,
    Decision,
    KeptAnswer,
    Lease,
    Page,
    Spent,
    WaitingCall,
    cursor_from,
    page_of,
    with_messages,
)


class MemoryStore(ConversationStore):
    """A store without a place. It keeps messages as JSON, so that it shares nothing with an agent.

    >>> store = MemoryStore(ttl_s=3600)
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._conversations: dict[tuple[str, str], tuple[ConversationInfo, list[str]]] = {}
        self._spent: defaultdict[str, Spent] = defaultdict(Spent)
        self._answers: dict[tuple[str, str], tuple[float, KeptAnswer]] = {}
        self._approvals: dict[tuple[str, str], WaitingCall] = {}
        #: For each line its tickets in order, each with the time when its lease runs out.
        self._lines: dict[tuple[str, str], dict[str, float]] = {}

    @override
    async def open(self) -> None:
        pass

    @override
    async def aclose(self) -> None:
        pass

    @override
    async def get(self, owner: str, conversation_id: str) -> Conversation | None:
        self._expire()
        found = self._conversations.get((owner, conversation_id))
        return found and with_messages(*found)

    @override
    async def page(self, owner: str, limit: int = 20, after: str | None = None) -> Page:
        self._expire()
        found = [info for (whose, _), (info, _) in self._conversations.items() if whose == owner]
        found.sort(key=lambda info: (info.updated, info.id), reverse=True)
        if after is not None:
            start = cursor_from(after)
            found = [info for info in found if (info.updated, info.id) < start]
        return page_of(found[: limit + 1], limit)

    @override
    async def spent(self, owner: str) -> Spent:
        return self._spent.get(owner, Spent())

    @override
    async def answer(self, owner: str, key: str) -> KeptAnswer | None:
        self._expire()
        found = self._answers.get((owner, key))
        return found and found[1]

    @override
    async def ask(self, approval: WaitingCall) -> None:
        self._approvals[approval.owner, approval.id] = approval

    @override
    async def approval(self, owner: str, approval_id: str) -> WaitingCall | None:
        self._expire()
        return self._approvals.get((owner, approval_id))

    @override
    async def approvals(self, owner: str, conversation_id: str | None = None) -> list[WaitingCall]:
        self._expire()
        return [
            approval
            for approval in self._approvals.values()
            if approval.owner == owner
            and approval.decision is None
            and conversation_id in (None, approval.conversation_id)
        ]

    @override
    async def _delete(self, owner: str, conversation_id: str, line: str) -> bool:
        self._lines.pop((owner, line), None)
        return self._conversations.pop((owner, conversation_id), None) is not None

    @override
    async def _save(self, owner: str, spent: Spent, change: Change | None, answer: KeptAnswer | None) -> bool | None:
        self._expire()
        _, texts = self._conversations.get((owner, change.info.id), (None, [])) if change else (None, [])
        if change and len(texts) < change.kept:
            return None
        self._spent[owner] += spent
        if change and self._first(change.lease) != change.lease.ticket:
            return False
        if answer and (owner, answer.key) in self._answers:
            return False
        if answer:
            self._answers[owner, answer.key] = (time.time() + self.answer_ttl_s, answer)
        if change:
            self._conversations.pop((owner, change.info.id), None)  # its place is now the last
            self._conversations[owner, change.info.id] = (change.info, texts[: change.kept] + change.added)
        return True

    @override
    async def _decide(self, owner: str, approval_id: str, decision: Decision) -> bool:
        approval = await self.approval(owner, approval_id)
        if approval is None or approval.decision:
            return False
        self._approvals[owner, approval_id] = replace(approval, decision=decision)
        return True

    @override
    async def _take(self, lease: Lease, *, join: bool) -> bool:
        line = self._lines.setdefault((lease.owner, lease.line), {})
        now = time.time()
        for ticket in [ticket for ticket, until in line.items() if until <= now and ticket != lease.ticket]:
            del line[ticket]
        if join or lease.ticket in line:
            line[lease.ticket] = now + self.lease_s
        return self._first(lease) == lease.ticket

    @override
    async def _leave(self, lease: Lease) -> None:
        line = self._lines.get((lease.owner, lease.line), {})
        line.pop(lease.ticket, None)
        if not line:
            self._lines.pop((lease.owner, lease.line), None)

    def _first(self, lease: Lease) -> str | None:
        return next(iter(self._lines.get((lease.owner, lease.line), ())), None)

    def _expire(self) -> None:
        """Drop what is too old. Each dict but that of the approvals is in the order in which its items expire."""
        now = time.time()
        while self.ttl_s is not None and self._conversations:
            name, (info, _) = next(iter(self._conversations.items()))
            if info.updated + self.ttl_s > now:
                break
            del self._conversations[name]
        while self._answers:
            name, (until, _) = next(iter(self._answers.items()))
            if until > now:
                break
            del self._answers[name]
        for name in [name for name, approval in self._approvals.items() if approval.expires <= now]:
            del self._approvals[name]
