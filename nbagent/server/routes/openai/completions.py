"""`POST /v1/chat/completions`. The client holds the conversation: the server keeps nothing of it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from nbagent.server.event_stream import MEDIA_TYPE, sse
from nbagent.server.hosted_run import HostedRun
from nbagent.server.routes.openai.chat_answer import ChatAnswer
from nbagent.server.routes.openai.chat_request import ChatCompletionRequest
from nbagent.server.routes.openai.models import Host
from nbagent.server.routes.openai.run_request import run_request
from nbagent.server.routes.openai.writing import Reply
from nbagent.server.security import Caller, caller_of

router = APIRouter(prefix="/v1")


@router.post(
    "/chat/completions",
    response_model=None,
    responses={200: {"content": {MEDIA_TYPE: {}}}},
)
async def create_completion(
    request: Request,
    host: Host,
    body: ChatCompletionRequest,
    caller: Annotated[Caller, Depends(caller_of)],
) -> Response:
    """Ask the agent. The messages are the whole conversation. Tools run on the server; the answer leaves them out."""
    asked, limit = body.conversation(), body.max_completion_tokens or body.max_tokens
    kept = {"history": asked.history, "stored": False, "max_tokens": limit}
    reports_usage = bool(body.stream_options and body.stream_options.include_usage)

    def answer(run: HostedRun) -> ChatAnswer:
        return ChatAnswer(body.model, is_streamed=bool(body.stream), reports_usage=reports_usage)

    reply = Reply(answer, sse if body.stream else None, last="data: [DONE]\n\n")
    ask = run_request(host, body, asked, body.response_format, "response_format", **kept)
    return await reply.send(request, host, caller, ask)
