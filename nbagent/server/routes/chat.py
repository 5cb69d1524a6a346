"""`POST /agent/chat`: runs one prompt, and responds with JSON or with the run's events."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncGenerator
from time import monotonic
from typing import Annotated, Any

from fastapi import APIRouter, Header, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from nbagent.core.content.images import content_as_text
from nbagent.core.events import ChildEvent, Error, Event, ToolResult
from nbagent.core.json_text import json_text
from nbagent.core.limits import Limits
from nbagent.core.results import AgentResult
from nbagent.server import event_stream
from nbagent.server.event_stream import EventStream, sse, while_connected
from nbagent.server.hosted_run import HostedRun, IdempotencyKey, RunRequest
from nbagent.server.problems import problem_of
from nbagent.server.routes.dependencies import ID_PATTERN, Host, Owner

router = APIRouter(tags=["agent"])


class ChatRequest(BaseModel):
    """A prompt and the options of its run."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"message": "What is the mean of 1 and 3?"}]}
    )

    message: str = Field(min_length=1, description="The prompt.")
    conversation_id: str | None = Field(None, pattern=ID_PATTERN, description="Continues a conversation.")
    provider: str | None = Field(None, description="A provider that this server allows.")
    model: str | None = Field(None, description="A model that this server allows.")
    max_tool_calls: int = Field(5, ge=0, le=1000)
    max_tokens: int = Field(2000, ge=1, le=1_000_000, description="The limit for each answer of the model.")
    max_total_tokens: int | None = Field(None, ge=0, le=10**9, description="The limit for the run, input plus output.")
    max_cost: float | None = Field(None, ge=0, description="The limit for the run, in US dollars.")
    temperature: float | None = Field(None, ge=0, le=2)
    waits_for_approval: bool = Field(
        False, description="Whether calls that need approval wait for a decision. Otherwise, they are denied."
    )


class ToolCallMade(BaseModel):
    """A tool call. `validated` is true if the arguments were valid, even if the call was denied."""

    tool: str
    arguments: dict[str, Any]
    validated: bool
    result: dict[str, Any]


class ChatMeta(BaseModel):
    """Facts about the run. `status` shows how the run ended, and `limit_reason` which limit ended it, if any."""

    provider: str
    model: str
    total_tokens: int
    tool_calls_count: int
    validation_retries: int
    latency_ms: float
    status: str
    status_reason: str | None
    limit_reason: str | None
    cost_usd: float | None


class ChatResponse(BaseModel):
    """The answer. `success` is true if the `status` in `meta` is "ok"."""

    success: bool
    response: str
    conversation_id: str
    trace_id: str
    tool_calls: list[ToolCallMade]
    meta: ChatMeta


@router.post(
    "/agent/chat",
    response_model=ChatResponse,
    responses={200: {"content": {event_stream.MEDIA_TYPE: {}}}},
)
async def chat(
    request: Request,
    host: Host,
    owner: Owner,
    body: ChatRequest,
    accept: Annotated[str, Header()] = "",
    idempotency_key: Annotated[str | None, Header(min_length=1, max_length=255)] = None,
) -> Response:
    """Send a prompt. With `Accept: text/event-stream`, the response is a stream of the run's events."""
    streams = event_stream.MEDIA_TYPE in accept
    began = monotonic()

    def whole(run: HostedRun) -> str:
        return json_text(_answer(run, began).model_dump())

    idempotency = None
    if idempotency_key is not None and not streams:
        idempotency = IdempotencyKey(idempotency_key, hashlib.sha256(await request.body()).hexdigest(), whole)
    run = host.run(owner, run_request(body, idempotency))
    if streams:
        return EventStream(run, _written)

    async def answer() -> Response:
        async with run as running:
            if running.kept_answer is None:
                await running.outcome()
            text = running.kept_answer or whole(running)
            return Response(text, media_type="application/json")

    return await while_connected(request.receive, answer())


def run_request(body: ChatRequest, idempotency: IdempotencyKey | None = None) -> RunRequest:
    """Convert a chat request to the request for a run."""
    limits = Limits(max_tool_calls=body.max_tool_calls, max_total_tokens=body.max_total_tokens, max_cost=body.max_cost)
    return RunRequest(
        message=body.message,
        conversation_id=body.conversation_id,
        provider=body.provider,
        model=body.model,
        limits=limits,
        options=body.model_dump(include={"max_tokens", "temperature"}, exclude_none=True),
        waits_for_approval=body.waits_for_approval,
        idempotency=idempotency,
    )


def _answer(run: HostedRun, began: float) -> ChatResponse:
    result = run.result
    assert isinstance(result, AgentResult)
    calls = [_tool_call(event) for event in run.tool_results]
    return ChatResponse(
        success=result.status == "ok",
        response=result.content,
        conversation_id=run.conversation_id,
        trace_id=result.run_id,
        tool_calls=calls,
        meta=ChatMeta(
            provider=run.provider,
            model=run.model,
            total_tokens=result.usage.total_tokens,
            tool_calls_count=len(calls),
            validation_retries=result.metadata.get("validation_retries", 0),
            latency_ms=round((monotonic() - began) * 1_000, 3),
            status=result.status,
            status_reason=result.status_reason,
            limit_reason=result.limit_reason,
            cost_usd=result.cost,
        ),
    )


def _tool_call(event: ToolResult) -> ToolCallMade:
    outcome = event.outcome
    assert outcome is not None
    return ToolCallMade(
        tool=event.tool_name or "",
        arguments=event.tool_arguments or {},
        validated=outcome.args_valid,
        result=_result(event),
    )


def _result(event: ToolResult) -> dict[str, Any]:
    """`{"success": …, "data": …}` from skills. For other tools, `data` is the text for the model, parsed if JSON."""
    outcome = event.outcome
    assert outcome is not None
    text = content_as_text(outcome.content)
    if outcome.is_error:
        return {"success": False, "error": text}
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        data = text
    if isinstance(data, dict) and isinstance(data.get("success"), bool):
        return data
    return {"success": True, "data": data}


async def _written(run: HostedRun) -> AsyncGenerator[str]:
    """Stream the events of a run."""
    async for event in run:
        yield sse(_event_data(event), event.type)


def _event_data(event: Event) -> dict[str, Any]:
    """The five items of an event. A child's event also has `event` with these items."""
    data = event.to_dict()
    if isinstance(event, ChildEvent):
        data["event"] = _event_data(event.event)
    if isinstance(event, Error):
        problem = problem_of(event.exception)
        data = {**data, "content": problem.detail, "metadata": {**data["metadata"], "problem": problem.to_dict()}}
    return data
