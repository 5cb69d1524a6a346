"""AG-UI's interrupts: calls that wait for a person, and what the person decided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from ag_ui import core as ag_ui

from nbagent.core.render.markdown import format_call
from nbagent.server.conversations.store import Decision
from nbagent.server.problems import RefusedError

#: What a person's decision looks like.
_DECISION = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean"},
        "editedArgs": {"type": "object", "description": "All arguments, in place of the model's."},
        "reason": {"type": "string", "description": "Why not; the model reads it."},
    },
    "required": ["approved"],
}


def interrupt(
    name: str, tool: str, arguments: Mapping[str, Any], expires: float, tool_call_id: str | None = None
) -> ag_ui.Interrupt:
    """A call that waits for a decision until it expires. Without its id, it is a question of its own."""
    return ag_ui.Interrupt(
        id=name,
        reason="tool_call" if tool_call_id else "confirmation",
        message=f"Run {format_call(tool, dict(arguments))}?",
        tool_call_id=tool_call_id,
        response_schema=_DECISION,
        expires_at=datetime.fromtimestamp(expires, UTC).isoformat(),
    )


def read_decisions(asked: Mapping[str, Any], entries: Sequence[ag_ui.ResumeEntry]) -> dict[str, Decision]:
    """What the person decided on each question. Raises `RefusedError` if that does not answer all of them."""
    given = {entry.interrupt_id: entry for entry in entries}
    if not asked:
        detail = "Nothing in this thread waits for a decision: it was decided, or nobody decided in time."
        raise RefusedError(409, "no_such_interrupt", detail)
    if given.keys() != asked.keys():
        waiting, told = ", ".join(asked), ", ".join(given) or "nothing"
        detail = f"This thread waits for decisions on {waiting}, and `resume` answers {told}."
        raise RefusedError(409, "interrupts_not_answered", detail)
    return {name: _decision(entry) for name, entry in given.items()}


def _decision(entry: ag_ui.ResumeEntry) -> Decision:
    if entry.status == "cancelled":
        return Decision(False, reason="The person left without a decision.")
    payload: Any = entry.payload
    told = payload if isinstance(payload, dict) else {}
    approved, arguments, reason = told.get("approved"), told.get("editedArgs"), told.get("reason", "")
    if isinstance(approved, bool) and isinstance(arguments, dict | None) and isinstance(reason, str):
        return Decision(approved, arguments if approved else None, reason)
    detail = f'The payload for {entry.interrupt_id} is not a decision: expected {{"approved": true}} or false.'
    raise RefusedError(422, "invalid_decision", detail)
