"""GET /live, /ready, /health, /info and /metrics: health checks and monitoring."""

from collections.abc import Callable
from typing import Any, Protocol

from fastapi import APIRouter, Response
from fastapi.responses import PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST

from service.api.openapi_responses import AUTH_ERRORS, route_responses
from service.api.router import api_router
from service.api.schemas.status import Info, Live, Ready
from service.errors import EngineLost, ShuttingDown
from service.metrics import Metrics
from service.request.admission import Admission


class EngineHealth(Protocol):
    """Tells whether the engine has computed vectors recently."""

    @property
    def ready(self) -> bool: ...


def router(
    engine: EngineHealth,
    admission: Admission,
    metrics: Metrics,
    shutting_down: Callable[[], bool],
    info: Callable[[], dict[str, Any]],
) -> APIRouter:
    """Create the routes of this module."""
    routes, ready_responses = api_router("status"), route_responses((429, 500, 503))

    @routes.get(
        "/live",
        summary="Whether the HTTP process responds",
        response_model=Live,
        responses=route_responses((500,)),
    )
    async def live() -> Any:
        return {"status": "live"}

    @routes.get("/", include_in_schema=False)  # load balancers check TEI there, without a key
    @routes.get("/ping", include_in_schema=False)
    @routes.get(
        "/health",
        summary="The same as /ready, under TEI's name",
        response_model=Ready,
        responses=ready_responses,
        name="health",
    )
    @routes.get(
        "/ready",
        summary="Whether the engine works and would accept a query",
        response_model=Ready,
        responses=ready_responses,
    )
    async def ready() -> Any:
        if shutting_down():
            raise ShuttingDown("the server is shutting down", retry_after=1)
        if not engine.ready:
            raise EngineLost("the engine is not ready", retry_after=2)
        admission.check(1)
        return {"status": "ready", "queued_tokens": admission.queued}

    @routes.get(
        "/info",
        summary="The model, its precision, and the limits",
        response_model=Info,
        responses=route_responses(AUTH_ERRORS),
        name="info",
    )
    async def get_info() -> Any:
        return info()

    @routes.get(
        "/metrics",
        summary="Prometheus metrics",
        response_class=PlainTextResponse,
        responses=route_responses((500,)),
        name="metrics",
    )
    async def get_metrics() -> Response:
        return Response(metrics.text(), media_type=CONTENT_TYPE_LATEST)

    return routes
