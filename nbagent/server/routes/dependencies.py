"""Dependencies of routes: the host of the agents, and the owner of the request."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from nbagent.server.agent_host import AgentHost
from nbagent.server.tokens import Holder

#: The pattern of ids of conversations and approvals.
ID_PATTERN = r"^[A-Za-z0-9_.:-]{1,128}$"

#: The maximum number of messages in a client's own conversation.
MAX_MESSAGES = 10_000

# FastAPI would call plain functions in a thread, which takes longer than the functions.


async def _host_of(request: Request) -> AgentHost:
    host: AgentHost = request.app.state.host
    return host


async def _holder_of(request: Request) -> Holder:
    holder: Holder = request.scope["nbagent.holder"]
    return holder


async def _owner_of(request: Request) -> str:
    return (await _holder_of(request)).owner


Host = Annotated[AgentHost, Depends(_host_of)]
CurrentHolder = Annotated[Holder, Depends(_holder_of)]
#: The owner of conversations and budgets.
Owner = Annotated[str, Depends(_owner_of)]
