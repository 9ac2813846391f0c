"""Health checks (GET /live, /ready and /health), GET /metrics, and POST /.

POST / does what the model computes, as in TEI; of several models, the one in the path.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NotRequired, Protocol

from fastapi import APIRouter, Response
from fastapi.responses import PlainTextResponse
from pydantic import NonNegativeInt
from starlette.routing import Route
from starlette.types import Receive, Scope, Send
from typing_extensions import TypedDict

from embedwell.compute.admission import Admission
from embedwell.compute.served_model import ServedModel
from embedwell.errors import EngineUnavailable, Overloaded, ShuttingDown
from embedwell.http.request_context import model_in_path
from embedwell.routes.common.common_fields import forbid_extra
from embedwell.routes.common.openapi_responses import route_responses
from embedwell.routes.common.router import PATHS, api_router, with_traits
from embedwell.routes.common.server_state import ModelChoice, ServerState, root_task
from embedwell_models.outputs.names import DENSE, MULTI


@forbid_extra
class Live(TypedDict):
    """The HTTP process responds.

    - `status`: always `live`.
    """

    status: Literal["live"]


@forbid_extra
class Ready(TypedDict):
    """The server computes vectors; below `/m/NAME`, this model does.

    - `status`: always `ready`.
    - `queued_tokens`: number of tokens that wait to be computed.
    - `unix`: the server's time in seconds since 1970, as in Infinity's response.
    - `engines_down`: the devices that do not compute; only if the model is on several devices.
    """

    status: Literal["ready"]
    queued_tokens: NonNegativeInt
    unix: float
    engines_down: NotRequired[list[str]]


class ModelHealth(Protocol):
    """Reports whether a model should be loaded, and whether its engine computed recently."""

    @property
    def should_be_loaded(self) -> bool: ...
    @property
    def ready(self) -> bool: ...
    @property
    def engines_down(self) -> list[str] | None: ...
    @property
    def admission(self) -> Admission: ...


def router(server: ServerState) -> APIRouter:
    """Create the routes of health checks."""
    return health_router(server.models, server.shutting_down)


def health_router(models: Sequence[ModelHealth], shutting_down: Callable[[], bool]) -> APIRouter:
    """Create the route /live, and /ready with its other paths."""
    routes = api_router("status", ())
    ready_responses = route_responses((429, 500, 503))
    checks = with_traits(routes, without_key=True, is_health_check=True, is_monitoring=True)

    @checks.get(
        "/live", summary="Check that the HTTP process responds", responses=route_responses((500,))
    )
    async def live() -> Live:
        return {"status": "live"}

    @checks.get("/", include_in_schema=False)  # TEI's health checks have this path and no key
    @checks.get("/ping", include_in_schema=False)
    @checks.get(
        "/health",
        summary="Check readiness, under TEI's path",
        responses=ready_responses,
        name="health",
    )
    @checks.get(
        "/ready",
        summary="Check that the engine works and would accept a query",
        responses=ready_responses,
    )
    async def ready() -> Ready:
        asked = check_ready(models, shutting_down)
        queued_tokens = sum(m.admission.queued_tokens for m in asked)
        response = Ready(status="ready", queued_tokens=queued_tokens, unix=time.time())
        if (down := asked[0].engines_down) is not None:
            response["engines_down"] = down
        return response

    return routes


def check_ready(
    models: Sequence[ModelHealth], shutting_down: Callable[[], bool]
) -> Sequence[ModelHealth]:
    """Return the models that the request asks for: all, or the one whose path it has.

    Raises ServiceError unless their engines work and one would accept a query.
    """
    if shutting_down():
        raise ShuttingDown("the server is shutting down", retry_after=1)
    index = model_in_path.get()
    asked = models if index is None else [models[index]]
    needed = [model for model in asked if model.should_be_loaded]
    if not all(model.ready for model in needed):
        raise EngineUnavailable("the engine is not ready", retry_after=2)
    _check_some(needed)
    return asked


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


def metrics_router(server: ServerState) -> APIRouter:
    """Create the route /metrics."""
    routes = api_router("status", ())

    @with_traits(routes, without_key=True, is_monitoring=True).get(
        "/metrics",
        summary="Prometheus metrics",
        response_class=PlainTextResponse,
        responses=route_responses((500,)),
        name="metrics",
    )
    async def get_metrics() -> Response:
        from prometheus_client import CONTENT_TYPE_LATEST  # see embedwell.telemetry.metrics

        return Response(server.metrics.render(), media_type=CONTENT_TYPE_LATEST)

    return routes


class RootOfModels:
    """ASGI application that answers a request as the route of the chosen model does."""

    def __init__(self, routes: Mapping[str, Route], models: ModelChoice[ServedModel]) -> None:
        """routes: the routes by path."""
        self._routes, self._models = routes, models

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond to a request; raises ServiceError."""
        path = PATHS[root_task(self._models.choose())]
        await self._routes[path].app(scope, receive, send)


def root_router(server: ServerState) -> APIRouter:
    """Create the undocumented route /: the route of the task that all models have, if they do."""
    paths = {PATHS[root_task(model)] for model in server.models}
    if len(paths) == 1:
        return APIRouter(routes=[server.routes[paths.pop()].at("/")])
    models = server.choice(lambda model: model, DENSE, MULTI)
    root = RootOfModels(server.routes, models)
    return APIRouter(routes=[Route("/", root, methods=["POST"])])
