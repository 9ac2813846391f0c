"""GET /live, /ready, /health, /info and /metrics: what gateways, people and monitors ask."""

from collections.abc import Callable
from typing import Any, Protocol

from fastapi import APIRouter, Response
from fastapi.responses import PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST

from service.api.openapi_responses import PLAIN, documented
from service.api.router import api_router
from service.api.schemas.status import Info, Live, Ready
from service.errors import EngineLost, ShuttingDown
from service.metrics import Metrics
from service.request.admission import Admission


class Health(Protocol):
    """Whatever knows whether the engine embeds."""

    @property
    def ready(self) -> bool: ...


def router(
    health: Health,
    admission: Admission,
    metrics: Metrics,
    leaving: Callable[[], bool],
    info: Callable[[], dict[str, Any]],
) -> APIRouter:
    """The routes of this module. leaving: whether the server was told to stop."""
    routes, readiness = api_router("status"), documented((429, 500, 503))

    @routes.get(
        "/live",
        summary="Whether the server's event loop turns",
        response_model=Live,
        responses=documented((500,)),
    )
    async def live() -> Any:
        return {"status": "live"}

    @routes.get("/", include_in_schema=False)  # as load balancers ask TEI, without a key
    @routes.get("/ping", include_in_schema=False)
    @routes.get(
        "/health",
        summary="The same as /ready, under TEI's name",
        response_model=Ready,
        responses=readiness,
        name="health",
    )
    @routes.get(
        "/ready",
        summary="Whether the engine has just embedded and would take a query",
        response_model=Ready,
        responses=readiness,
    )
    async def ready() -> Any:
        if leaving():
            raise ShuttingDown("the server was told to stop", retry=1)
        if not health.ready:
            raise EngineLost("the engine is not ready", retry=2)
        admission.check(1)
        return {"status": "ready", "queued_tokens": admission.queued}

    @routes.get(
        "/info",
        summary="The model, its precision, and the limits",
        response_model=Info,
        responses=documented(PLAIN),
        name="info",
    )
    async def server_info() -> Any:
        return info()

    @routes.get(
        "/metrics",
        summary="Prometheus metrics",
        response_class=PlainTextResponse,
        responses=documented((500,)),
        name="metrics",
    )
    async def scrape() -> Response:
        return Response(metrics.text(), media_type=CONTENT_TYPE_LATEST)

    return routes
