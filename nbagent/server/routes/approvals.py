"""`/agent/approvals`: calls that wait for a person's decision. Only the first decision on a call counts."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, ConfigDict, Field

from nbagent.errors import ToolArgumentsError
from nbagent.functions.validation import validate_arguments
from nbagent.server.agent_host import AgentHost
from nbagent.server.conversations.store import Decision
from nbagent.server.problems import RefusedError, not_found
from nbagent.server.routes.dependencies import ID_PATTERN, Host, Owner

router = APIRouter(prefix="/agent/approvals", tags=["approvals"])


class PendingApproval(BaseModel):
    """A call that waits for a decision. If it expires first, it is denied."""

    model_config = ConfigDict(from_attributes=True)

    id: str
    conversation_id: str
    trace_id: str = Field(validation_alias="run_id")
    tool: str
    arguments: dict[str, Any]
    created: datetime
    expires: datetime


class PendingApprovals(BaseModel):
    """The waiting calls, oldest first."""

    approvals: list[PendingApproval]


class DecisionRequest(BaseModel):
    """A decision. `arguments`, if given, replace the model's. If the call is denied, the model reads `reason`."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"decision": "approve"}]})

    decision: Literal["approve", "deny"]
    arguments: dict[str, Any] | None = None
    reason: str = Field("", max_length=1000)


class Decided(BaseModel):
    """The recorded decision."""

    id: str
    decision: Literal["approve", "deny"]


@router.get("")
async def pending(
    host: Host, owner: Owner, conversation_id: Annotated[str | None, Query(pattern=ID_PATTERN)] = None
) -> PendingApprovals:
    """The calls that wait for a decision."""
    found = await host.store.approvals(owner, conversation_id)
    return PendingApprovals(approvals=[PendingApproval.model_validate(call) for call in found])


@router.post("/{approval_id}")
async def decide(
    host: Host, owner: Owner, approval_id: Annotated[str, Path(pattern=ID_PATTERN)], body: DecisionRequest
) -> Decided:
    """Approve or deny a call. A later decision on the same call is refused with status 409."""
    approval = await host.store.approval(owner, approval_id)
    if approval is None:
        raise not_found("call with that id waiting for approval")
    if body.arguments is not None:
        if body.decision == "deny":
            raise RefusedError(422, "invalid_request", "arguments: these are only allowed with an approval. Omit them.")
        check_arguments(host, approval.tool, body.arguments)
    decision = Decision(body.decision == "approve", body.arguments, body.reason)
    if not await host.store.decide(owner, approval_id, decision):
        raise RefusedError(409, "already_decided", "This call has already been decided, or has expired.")
    return Decided(id=approval_id, decision=body.decision)


def check_arguments(host: AgentHost, tool: str, arguments: dict[str, Any]) -> None:
    """Refuse arguments that are invalid for the tool. With such arguments, the call would fail and the decision would
    be used up.

    If several agents have a tool with this name, it is enough if one of these tools accepts the arguments.
    """
    wrong: ToolArgumentsError | None = None
    for definition in filter(None, (agent.function_registry.get_function(tool) for agent in host.agents.values())):
        try:
            validate_arguments(definition, arguments)
        except ToolArgumentsError as error:
            wrong = wrong or error
        else:
            return
    if wrong is not None:
        raise RefusedError(422, "invalid_arguments", str(wrong))
