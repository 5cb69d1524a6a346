"""`POST /v1/chat/completions`. The client holds the conversation: the server keeps nothing of it."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from nbagent.server.event_stream import MEDIA_TYPE, sse
from nbagent.server.hosted_run import HostedRun
from nbagent.server.routes.asking import Host, Owner
from nbagent.server.routes.openai.chat_answer import ChatAnswer
from nbagent.server.routes.openai.chat_request import ChatCompletionRequest
from nbagent.server.routes.openai.run_request import run_request
from nbagent.server.routes.openai.writing import reply

router = APIRouter(prefix="/v1")


@router.post(
    "/chat/completions",
    response_model=None,
    responses={200: {"content": {MEDIA_TYPE: {}}}},
)
async def create_completion(request: Request, host: Host, owner: Owner, body: ChatCompletionRequest) -> Response:
    """Ask the agent. The messages are the whole conversation. Tools run on the server; the answer leaves them out."""
    asked = body.conversation()
    reports_usage = bool((body.stream_options or {}).get("include_usage"))

    def answer(run: HostedRun) -> ChatAnswer:
        return ChatAnswer(body.model, reports_usage=reports_usage)

    ask = await run_request(
        host, body, asked, body.response_format, "response_format", history=asked.history, stored=False
    )
    return await reply(request, host, owner, ask, answer, sse if body.stream else None, "data: [DONE]\n\n")
