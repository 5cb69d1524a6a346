"""Approvals over HTTP. A client with the run's token approves or denies a call. Otherwise, the call is denied."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from nbagent.chat.approval import where_asked
from nbagent.core.current import current
from nbagent.core.events import Approval
from nbagent.core.messages import FunctionCall, new_id
from nbagent.errors import ToolDeniedError
from nbagent.functions.elicitation import Question
from nbagent.functions.registry import FunctionDefinition
from nbagent.server.conversations.store import ConversationStore, Decision, WaitingCall
from nbagent.server.hosted_run import HostedRun

_DENIED = "The call needs approval, and this request does not wait for one. Do not repeat the call; tell the user."


async def deny(call: FunctionCall, definition: FunctionDefinition) -> Any:
    """Deny a call. This is the approver for requests that don't wait for approval."""
    raise ToolDeniedError(_DENIED, tool=definition.name)


class HTTPApprover:
    """Asks the clients that use the run's token. They see the call in the run's events, or fetch it from
    `/agent/approvals`.
    """

    def __init__(self, store: ConversationStore, seconds: float, owner: str, run: HostedRun) -> None:
        self._store = store
        self._seconds = seconds
        self._owner = owner
        self._run = run

    async def __call__(self, call: FunctionCall, definition: FunctionDefinition) -> Any:
        """Return True, or edited arguments, if approved. Raises `ToolDeniedError` with the person's reason."""
        if isinstance(call, Question):  # needs an answer, not an approval
            return None
        asked, context = time.time(), current.get().call
        approval = WaitingCall(
            id=new_id("approval"),
            owner=self._owner,
            conversation_id=self._run.conversation_id,
            run_id=self._run.run_id,
            tool_call_id=context.tool_call_id or "",
            tool=call.name,
            arguments=call.arguments,
            created=asked,
            expires=asked + self._seconds,
        )
        await self._store.ask(approval)
        metadata = {
            "run_id": approval.run_id,
            "tool_call_id": approval.tool_call_id,
            "step": context.step,
            "wire_id": call.id,
            "approval_id": approval.id,
            "expires": approval.expires,
            "where": where_asked(call, definition, "on the server"),
        }
        self._run.put(Approval("asked", call.name, call.arguments, metadata))
        try:
            decision = await self._store.decision(approval)
        except asyncio.CancelledError:
            withdrawn = Decision(False, reason="The run has ended.")
            await asyncio.shield(self._store.decide(approval.owner, approval.id, withdrawn))
            raise
        if decision is None:
            raise ToolDeniedError("Nobody approved the call in time. Do not repeat it; tell the user.", tool=call.name)
        if not decision.approved:
            reason = f": {decision.reason}" if decision.reason else "."
            raise ToolDeniedError(f"The user denied the call{reason}", tool=call.name)
        return True if decision.arguments is None else decision.arguments
