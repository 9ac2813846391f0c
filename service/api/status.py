"""GET /live, /ready, /health, /info and /metrics: what gateways, people and monitors ask."""

from collections.abc import Callable
from typing import Any, Protocol

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST

from service.api.answer import answer
from service.api.responses import PLAIN, Responses
from service.api.shapes.status import Info, Live, Ready
from service.errors import EngineLost, Leaving
from service.metrics import Metrics
from service.request.admission import Admission

_LIVE = Responses(Live, (500,)).describe()
_READY = Responses(Ready, (429, 500, 503)).describe()
_INFO = Responses(Info, PLAIN).describe()
_METRICS = Responses(None, (500,)).describe()


class Health(Protocol):
    """Whatever knows whether the engine embeds."""

    @property
    def embeds(self) -> bool: ...


def router(
    health: Health,
    admission: Admission,
    metrics: Metrics,
    leaving: Callable[[], bool],
    info: Callable[[], dict[str, Any]],
) -> APIRouter:
    """The routes of this module. leaving: whether the server was told to stop."""
    routes = APIRouter(tags=["status"])

    @routes.get("/live", summary="Whether the server's event loop turns", openapi_extra=_LIVE)
    async def live() -> Response:
        return answer({"status": "live"})

    @routes.get("/", include_in_schema=False)  # as load balancers ask TEI, without a key
    @routes.get("/ping", include_in_schema=False)
    @routes.get("/health", summary="The same as /ready, under TEI's name", openapi_extra=_READY)
    @routes.get(
        "/ready",
        summary="Whether the engine has just embedded and would take a query",
        openapi_extra=_READY,
    )
    async def ready() -> Response:
        if leaving():
            raise Leaving("the server was told to stop", retry=1)
        if not health.embeds:
            raise EngineLost("the engine is not ready", retry=2)
        admission.check(1)
        return answer({"status": "ready", "queued_tokens": admission.queued})

    @routes.get("/info", summary="The model, its precision, and the limits", openapi_extra=_INFO)
    async def about() -> Response:
        return answer(info())

    @routes.get("/metrics", summary="Prometheus metrics", openapi_extra=_METRICS)
    async def scrape() -> Response:
        return Response(metrics.text(), media_type=CONTENT_TYPE_LATEST)

    return routes
