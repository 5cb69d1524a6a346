"""`POST /ag-ui`: AG-UI's events for its clients, such as `HttpAgent` of `@ag-ui/client`."""

from __future__ import annotations

from collections.abc import AsyncIterator

from ag_ui import core as ag_ui
from fastapi import APIRouter, Request
from pydantic import Field
from starlette.responses import Response

from nbagent.server import event_stream
from nbagent.server.event_stream import EventStream, sse
from nbagent.server.routes.ag_ui.exchange import AgUiExchange
from nbagent.server.routes.asking import ID_PATTERN, MAX_MESSAGES, Host, Owner

router = APIRouter(tags=["ag-ui"])


class AgUiInput(ag_ui.RunAgentInput):
    """What an AG-UI client sends. `threadId` names the conversation."""

    thread_id: str = Field(pattern=ID_PATTERN)
    messages: list[ag_ui.Message] = Field(max_length=MAX_MESSAGES)


@router.post(
    "/ag-ui",
    response_class=Response,
    responses={200: {"content": {event_stream.MEDIA_TYPE: {}}}},
)
async def ag_ui_run(request: Request, host: Host, owner: Owner, body: AgUiInput) -> Response:
    """Ask the agent as an AG-UI client: the answer is AG-UI's events.

    The client's messages are the conversation. Without messages, the answer is the conversation of the thread as it is.
    """
    return EventStream(AgUiExchange(host, request.app.state.waiting_talks, owner, body), _write)


async def _write(exchange: AgUiExchange) -> AsyncIterator[str]:
    async for event in exchange.events():
        yield sse(event.model_dump(by_alias=True))
