"""Checks for load balancers and operators: liveness, readiness, and metrics for Prometheus."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from nbagent.server.metrics import MEDIA_TYPE, Metrics
from nbagent.server.routes.dependencies import CurrentHolder, Host

router = APIRouter(tags=["health"])


@router.get("/healthz", openapi_extra={"security": []})
async def health() -> dict[str, str]:
    """Whether the server responds. Requires no token."""
    return {"status": "ok"}


@router.get("/readyz", openapi_extra={"security": []})
async def ready(host: Host) -> dict[str, str]:
    """Whether the store, which every prompt needs, can be read. If not, the status is 503. Requires no token."""
    await host.store.spent("readyz")
    return {"status": "ok"}


@router.get("/readyz/providers")
async def providers_ready(host: Host) -> dict[str, str]:
    """Whether the store can be read and the agents' providers respond to a request for their list of models."""
    await host.store.spent("readyz")
    for agent in host.agents.values():
        await agent.provider.model_list()
    return {"status": "ok"}


@router.get(
    "/metrics", response_class=Response, responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}
)
async def all_metrics(request: Request, holder: CurrentHolder) -> Response:
    """Metrics for Prometheus: requests and runs. For an admin, they include token counts and costs."""
    numbers: Metrics = request.app.state.metrics
    return Response(numbers.text(with_costs=holder.is_admin), media_type=MEDIA_TYPE)
