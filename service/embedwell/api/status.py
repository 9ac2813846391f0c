"""GET /live, /ready, /health, /info and /metrics: health checks and monitoring."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Protocol

from fastapi import APIRouter, Query, Response
from fastapi.responses import PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST

from embedwell.api.model_choice import ModelChoice
from embedwell.api.openapi_responses import AUTH_ERRORS, route_responses
from embedwell.api.router import api_router
from embedwell.api.schemas import status as schemas
from embedwell.errors import EngineUnavailable, Overloaded, ShuttingDown
from embedwell.metrics.metrics import Metrics
from embedwell.request.admission import Admission
from embedwell_models.hub.sources import DEFAULT

_MODEL = Query(description="Example name of a served model.", examples=[DEFAULT])

Info = Callable[[], dict[str, Any]]


class ModelHealth(Protocol):
    """Reports whether a model should be loaded, and whether its engine computed recently."""

    @property
    def should_be_loaded(self) -> bool: ...
    @property
    def ready(self) -> bool: ...
    @property
    def admission(self) -> Admission: ...


def router(
    models: Sequence[ModelHealth],
    metrics: Metrics,
    shutting_down: Callable[[], bool],
    infos: ModelChoice[Info],
) -> APIRouter:
    """Create the routes of this module."""
    routes, ready_responses = api_router("status"), route_responses((429, 500, 503))

    @routes.get(
        "/live",
        summary="Check that the HTTP process responds",
        response_model=schemas.Live,
        responses=route_responses((500,)),
    )
    async def live() -> Any:
        return {"status": "live"}

    @routes.get("/", include_in_schema=False)  # TEI's health checks have this path and no key
    @routes.get("/ping", include_in_schema=False)
    @routes.get(
        "/health",
        summary="Check readiness, under TEI's path",
        response_model=schemas.Ready,
        responses=ready_responses,
        name="health",
    )
    @routes.get(
        "/ready",
        summary="Check that the engine works and would accept a query",
        response_model=schemas.Ready,
        responses=ready_responses,
    )
    async def ready() -> Any:
        if shutting_down():
            raise ShuttingDown("the server is shutting down", retry_after=1)
        needed = [model for model in models if model.should_be_loaded]
        if not all(model.ready for model in needed):
            raise EngineUnavailable("the engine is not ready", retry_after=2)
        _check_some(needed)
        return {"status": "ready", "queued_tokens": sum(m.admission.queued_tokens for m in models)}

    @routes.get(
        "/info",
        summary="Describe the model, its precision, and the limits",
        response_model=schemas.Info,
        responses=route_responses((*AUTH_ERRORS, 404)),
        name="info",
    )
    async def get_info(model: Annotated[str | None, _MODEL] = None) -> Any:
        return infos.choose(model)()

    @routes.get(
        "/metrics",
        summary="Prometheus metrics",
        response_class=PlainTextResponse,
        responses=route_responses((500,)),
        name="metrics",
    )
    async def get_metrics() -> Response:
        return Response(metrics.render(), media_type=CONTENT_TYPE_LATEST)

    return routes


def _check_some(models: Sequence[ModelHealth]) -> None:
    """Raise Overloaded if even a short query would wait too long with every model."""
    refusals = []
    for model in models:
        try:
            model.admission.check(1)
        except Overloaded as error:
            refusals.append(error)
    if models and len(refusals) == len(models):
        raise refusals[0]
