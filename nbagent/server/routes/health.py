"""`GET /healthz`: whether the server answers, the only address that needs no token; and `GET /metrics`."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from nbagent.server import metrics
from nbagent.server.routes.asking import Host

router = APIRouter(tags=["health"])


@router.get("/healthz", openapi_extra={"security": []})
async def health() -> dict[str, str]:
    """Whether the server answers. Needs no token."""
    return {"status": "ok"}


@router.get(
    "/metrics", response_class=Response, responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}
)
async def all_metrics(host: Host) -> Response:
    """Numbers for Prometheus: requests, runs, tokens, cost."""
    return Response(host.metrics.text(), media_type=metrics.MEDIA_TYPE)
