"""GET /v1/models and /models: lists of the served models; POST /models/NAME/load and unload."""

from collections.abc import Callable
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request
from pydantic import NonNegativeInt
from typing_extensions import TypedDict

from embedwell.errors import Forbidden, TimedOut, UnknownModel
from embedwell.http.error_body import OpenAIError, forbid_extra
from embedwell.http.model_paths import PREFIX
from embedwell.routes.common.model_registry import ModelRegistry
from embedwell.routes.common.openapi_responses import AUTH_ERRORS, BODY_ERRORS, route_responses
from embedwell.routes.common.router import api_router
from embedwell.routes.model_cards import Model, Models, model_card, model_list, named
from embedwell_models.hub.sources import DEFAULT

_NAME = Path(examples=[DEFAULT])
_ADMIN_ERRORS = (*BODY_ERRORS, 404, 503, 504)


@forbid_extra
class Stats(TypedDict):
    queued_tokens: NonNegativeInt


@forbid_extra
class InfinityModel(TypedDict):
    """A served model in Infinity's format.

    - `created`: start time of the server, in seconds since 1970.
    """

    id: str
    object: Literal["model"]
    created: int
    stats: Stats
    capabilities: list[Literal["embed", "multi_vector", "rerank", "classify"]]


@forbid_extra
class InfinityModels(TypedDict):
    object: Literal["list"]
    data: list[InfinityModel]


@forbid_extra
class ModelState(TypedDict):
    model: str
    state: Literal["loaded", "loading", "unloaded"]


def router(registry: ModelRegistry, created: int) -> APIRouter:
    """Create the routes that list the served models.

    created: creation time of all models, in seconds since 1970.
    """
    routes, responses = api_router("OpenAI"), route_responses(AUTH_ERRORS, OpenAIError)

    @routes.get(
        "/v1/models",
        summary="List the served models under all of their names",
        responses=responses,
        name="models",
    )
    async def list_models(
        endpoint: Annotated[str | None, Query(description="Of Cohere's list `models`.")] = None,
    ) -> Models:
        return model_list(registry, created, endpoint)

    @routes.get(
        "/models",
        summary="List the names of the served models",
        responses=responses,
    )
    async def infinity_models() -> InfinityModels:
        data: list[InfinityModel] = [
            {
                "id": name,
                "object": "model",
                "created": created,
                "stats": {"queued_tokens": model.admission.queued_tokens},
                "capabilities": [model.task],
            }
            for name, model in named(registry)
        ]
        return {"object": "list", "data": data}

    @routes.get(
        "/v1/models/{name:path}",
        summary="Get a model",
        responses=route_responses((*AUTH_ERRORS, 404), OpenAIError),
        name="model",
    )
    async def get_model(name: Annotated[str, _NAME]) -> Model:
        return model_card(name, registry.choose(name), created)

    return routes


KeyCheck = Callable[[Any], None]
"""Raises Unauthorized unless the request's headers have an admin key."""


def admin_router(registry: ModelRegistry, check_key: KeyCheck | None, timeout: float) -> APIRouter:
    """Create the routes that load and unload a model, for requests with an admin key.

    check_key: None if the server has no admin key.
    timeout: seconds to wait until a model is loaded or unloaded.
    """
    routes, responses = api_router("status"), route_responses(_ADMIN_ERRORS)

    def check(request: Request) -> None:
        if check_key is None:
            raise Forbidden(
                "loading and unloading by request is disabled; set EMBEDWELL_ADMIN_KEY to "
                "enable it",
                code="admin_disabled",
            )
        check_key({name.lower(): value for name, value in request.headers.raw})

    @routes.post(
        "/models/{name:path}/load",
        summary="Load a model and wait until it is loaded",
        responses=responses,
        name="load_model",
    )
    async def load(request: Request, name: Annotated[str, _NAME]) -> ModelState:
        check(request)
        model = registry.choose(name)
        await model.engine.load(timeout)
        return {"model": model.name, "state": model.state}

    @routes.post(
        "/models/{name:path}/unload",
        summary="Unload a model until the next request for it",
        responses=responses,
        name="unload_model",
    )
    async def unload(request: Request, name: Annotated[str, _NAME]) -> ModelState:
        check(request)
        model = registry.choose(name)
        try:
            await model.engine.unload(timeout)
        except TimeoutError:
            message = f"the model was not unloaded within {timeout:.0f} s; try again"
            raise TimedOut(message, retry_after=1) from None
        return {"model": model.name, "state": model.state}

    return routes


def unknown_model_router(registry: ModelRegistry) -> APIRouter:
    """Create the undocumented routes of paths that begin with no served model; they list these."""
    routes = APIRouter(include_in_schema=False)

    @routes.api_route(PREFIX + "{path:path}", methods=["GET", "POST"])
    async def unknown_model(request: Request) -> None:
        names = ", ".join(repr(name) for model in registry.models for name in model.settings.names)
        raise UnknownModel(
            f"no model at {request.url.path[:100]}; this server has {names}", param="model"
        )

    return routes
