"""What a route takes of a request: the server's agent, and whose request it is."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from nbagent.server.agent_host import AgentHost

#: Ids of conversations and approvals.
ID_PATTERN = r"^[A-Za-z0-9_.:-]{1,128}$"


def _host_of(request: Request) -> AgentHost:
    host: AgentHost = request.app.state.host
    return host


def _owner_of(request: Request) -> str:
    owner: str = request.scope["nbagent.owner"]
    return owner


Host = Annotated[AgentHost, Depends(_host_of)]
#: See `nbagent.server.security.owner_of`.
Owner = Annotated[str, Depends(_owner_of)]
