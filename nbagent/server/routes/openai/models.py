"""`GET /v1/models`: lists the agent with its own model, and the other models that the server allows."""

from __future__ import annotations

from time import time

from fastapi import APIRouter
from openai.types import Model
from pydantic import BaseModel

from nbagent.server.agent_host import AgentHost
from nbagent.server.problems import RefusedError
from nbagent.server.routes.dependencies import Host
from nbagent.text import shortened

#: The id of the agent with its own model.
AGENT = "nbagent"
_STARTED = int(time())

router = APIRouter(prefix="/v1")


class ModelList(BaseModel):
    """All models."""

    object: str = "list"
    data: list[Model]


@router.get("/models")
async def list_models(host: Host) -> ModelList:
    """Return the agent, and the other models that a request may use."""
    return ModelList(data=[_model(name) for name in (AGENT, *host.models)])


@router.get("/models/{model:path}")
async def retrieve_model(host: Host, model: str) -> Model:
    """Return one of the models."""
    model_choice(host, model)
    return _model(model)


def _model(name: str) -> Model:
    return Model(id=name, created=_STARTED, object="model", owned_by=AGENT)


def model_choice(host: AgentHost, model: str) -> str | None:
    """Return the requested model, or None for the agent's own. Raises `RefusedError` for an unknown model."""
    if model not in (AGENT, *host.models):
        detail = f"There is no model {shortened(model, 100)!r} here. Choose from: {', '.join((AGENT, *host.models))}."
        raise RefusedError(404, "model_not_found", detail)
    return None if model == AGENT else model
