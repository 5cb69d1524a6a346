"""`create_app`: an agent as an ASGI application, with routes, guards and error responses."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from fastapi import Depends, FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

from nbagent.agent.agent import Agent
from nbagent.checks import check_type
from nbagent.errors import ConfigurationError, NbagentError
from nbagent.server.agent_host import AgentHost
from nbagent.server.conversations.opening import open_store
from nbagent.server.conversations.store import ConversationStore
from nbagent.server.failures import MEDIA_TYPE, on_error
from nbagent.server.guards import RATE_HEADERS, Guards
from nbagent.server.metrics import Metrics
from nbagent.server.requests import Observed
from nbagent.server.routes import approvals, chat, conversations, health, page, skills
from nbagent.server.routes.ag_ui import route as ag_ui
from nbagent.server.routes.openai import router as openai_router
from nbagent.server.settings import ServerSettings
from nbagent.version import VERSION

#: The most used come first, since each request searches them in order.
ROUTERS = (
    chat.router,
    ag_ui.router,
    openai_router.router,
    page.router,
    approvals.router,
    conversations.router,
    health.router,
    skills.router,
)
#: Problem details (RFC 9457): `code` is for programs, `detail` for people.
_MEMBERS = {name: {"type": "string"} for name in ("type", "title", "detail", "code")} | {"status": {"type": "integer"}}
_SCHEMA = {"title": "ProblemDetails", "type": "object", "properties": _MEMBERS, "required": list(_MEMBERS)}
_PROBLEM = {"content": {MEDIA_TYPE: {"schema": _SCHEMA}}}
_FAILURES: dict[int | str, dict[str, Any]] = {
    "4XX": {"description": "The request was refused.", **_PROBLEM},
    "5XX": {"description": "The server or the model's provider failed.", **_PROBLEM},
}


def create_app(
    agent: Agent | Mapping[str, Agent], settings: ServerSettings, store: ConversationStore | None = None
) -> FastAPI:
    """Return an agent as an ASGI application, for uvicorn or another server. Conversations are kept in `store`, by
    default in memory.

    If there are several agents, a request names one as its model; requests without a name go to the first agent. Raises
    `ConfigurationError` if there is no token.

    >>> app = create_app(Agent("local"), ServerSettings(tokens=[token]))    # doctest: +SKIP
    """
    check_type("settings", settings, ServerSettings, fix="Pass ServerSettings(tokens=[...]).")
    if not (settings.tokens or settings.token_file):
        raise ConfigurationError("tokens: expected at least one token. `secrets.token_urlsafe(32)` creates one.")
    metrics = Metrics()
    host = AgentHost(agent, store or open_store("memory:"), settings, metrics)
    app = FastAPI(
        title="nbagent",
        description="An agent for any client.",
        version=VERSION,
        lifespan=_lifespan,
        responses=_FAILURES,
        dependencies=[Depends(HTTPBearer(auto_error=False, description="One of the server's tokens."))],
    )
    app.state.host, app.state.metrics = host, metrics
    app.state.waiting_runs = ag_ui.WaitingRuns()
    for router in ROUTERS:
        app.include_router(router)
    for kind in (NbagentError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, on_error)
    app.add_middleware(Guards, settings=settings)
    app.add_middleware(Observed, host=host, metrics=metrics)
    if settings.origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(settings.origins),
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=["*"],  # SDKs send their own
            expose_headers=["Retry-After", "X-Request-Id", *RATE_HEADERS],
        )
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    host: AgentHost = app.state.host
    await host.store.open()
    try:
        yield
    finally:
        await host.aclose()
        await host.store.aclose()
