"""`POST /agent/runs`: a question of another nbagent (`nbagent.connect`), answered by all that its trace needs."""

from __future__ import annotations

import hashlib
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Header, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from nbagent.core.history.repair import repair
from nbagent.core.history.saved import messages_from
from nbagent.core.limits import Limits
from nbagent.core.messages import LLMMessage
from nbagent.errors import ConfigurationError
from nbagent.server import event_stream
from nbagent.server.agent_host import AgentHost
from nbagent.server.event_stream import EventStream
from nbagent.server.hosted_run import HostedRun, Repeatable, RunRequest
from nbagent.server.routes.chat import ID_PATTERN, full_text, written
from nbagent.server.security import Caller, caller_of

router = APIRouter(tags=["agent"])


class Options(BaseModel):
    """What `Agent.chat` takes for the requests to the model."""

    model_config = ConfigDict(extra="forbid")

    temperature: float | None = Field(None, ge=0, le=2)
    max_tokens: int | None = Field(None, ge=1, le=1_000_000)
    thinking: bool | str | None = None
    tool_choice: str | None = None


class TextPart(BaseModel):
    """A piece of text."""

    model_config = ConfigDict(extra="forbid")

    type: Literal["text"]
    text: str


class ImagePart(BaseModel):
    """An image: its bytes in Base64, or its address. Never a path: that would be a file of the server."""

    model_config = ConfigDict(extra="forbid")

    type: Literal["image"]
    data: str | None = None
    media_type: str | None = None
    url: str | None = Field(None, pattern=r"^https?://")


class RunBody(BaseModel):
    """A question to the agent. `history` is used instead of what is stored: messages as `Agent.save` writes them."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"message": "What is the mean?"}]})

    message: str | list[TextPart | ImagePart] = Field(min_length=1)
    conversation_id: str | None = Field(None, pattern=ID_PATTERN, description="Continues a conversation.")
    history: list[dict[str, Any]] | None = None
    instructions: str = Field("", description="Follow the agent's own in this run.")
    limits: Limits = Field(Limits(), description="They can lower the server's and the agent's.")
    options: Options | None = None
    waits_for_approval: bool = Field(
        False, description="Whether calls that need approval wait for a decision; without it they are denied."
    )


@router.post("/agent/runs", responses={200: {"content": {event_stream.MEDIA_TYPE: {}}}})
async def run(
    request: Request,
    body: RunBody,
    caller: Annotated[Caller, Depends(caller_of)],
    idempotency_key: Annotated[str | None, Header(min_length=1, max_length=255)] = None,
) -> Response:
    """Ask the agent. The answer is the run's events, one by one, with all that a trace needs."""
    host: AgentHost = request.app.state.host
    repeatable = None
    if idempotency_key is not None:
        fingerprint = hashlib.sha256(b"run:" + await request.body()).hexdigest()
        repeatable = Repeatable(idempotency_key, fingerprint, _events_text)
    return EventStream(host.run(caller, _run_request(body, repeatable)), lambda run: written(run, full_text()))


def _run_request(body: RunBody, repeatable: Repeatable | None) -> RunRequest:
    return RunRequest(
        message=body.message if isinstance(body.message, str) else [_part(part) for part in body.message],
        conversation_id=body.conversation_id,
        history=None if body.history is None else _history(body.history),
        instructions=body.instructions or None,
        limits=body.limits,
        options={} if body.options is None else body.options.model_dump(exclude_none=True),
        waits_for_approval=body.waits_for_approval,
        repeatable=repeatable,
    )


def _part(part: TextPart | ImagePart) -> dict[str, Any]:
    return part.model_dump(exclude_none=True)


def _history(data: list[dict[str, Any]]) -> list[LLMMessage]:
    try:
        messages = messages_from(data, with_ids=True)
    except ValueError as error:
        raise ConfigurationError(f"history: {error}.") from None
    return repair([message for message in messages if message.role != "system"])


def _events_text(run: HostedRun) -> str:
    """The whole stream, for whoever repeats the request."""
    return "".join(map(full_text(), run.events or ()))
