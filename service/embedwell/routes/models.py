"""GET /v1/models and /models: the served models; POST /models/NAME/load and unload."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request
from pydantic import NonNegativeInt, PositiveInt
from typing_extensions import TypedDict

from embedwell.compute.served_model import ServedModel
from embedwell.errors import Forbidden, TimedOut, UnknownModel
from embedwell.http.access import ApiKeys
from embedwell.http.error_responses import OPENAI
from embedwell.http.request_context import MODEL_PREFIX
from embedwell.routes.code_samples import ADDRESS, code_sample
from embedwell.routes.common.common_fields import forbid_extra
from embedwell.routes.common.openapi_responses import AUTH_ERRORS, BODY_ERRORS, route_responses
from embedwell.routes.common.router import DirectRoute, api_router
from embedwell.routes.common.scores import rerank_score
from embedwell.routes.common.server_state import ModelRegistry, ServerState
from embedwell_models.hub.sources import DEFAULT
from embedwell_models.outputs.names import DENSE, MULTI, Task

Endpoint = Literal["embed", "rerank", "classify"]
"""Cohere's name of an API that a model answers."""

ModelType = Literal["embedding", "rerank", "classify", "decide"]

_MODEL_TYPES: dict[Task, ModelType] = {
    "embed": "embedding",
    "multi_vector": "embedding",
    "rerank": "rerank",
    "classify": "classify",
    "decide": "decide",
}


_ENDPOINT = "In `models`, only the models that answer this API of Cohere's. Default: all."


@forbid_extra
class MistralCapabilities(TypedDict):
    """Capabilities of a model, in Mistral's format.

    - `completion_chat`, `completion_fim`, `function_calling`, `fine_tuning`, `vision`: always
      false, as the model generates no text.
    - `classification`: whether the model classifies texts.
    """

    completion_chat: Literal[False]
    completion_fim: Literal[False]
    function_calling: Literal[False]
    fine_tuning: Literal[False]
    vision: Literal[False]
    classification: bool


@forbid_extra
class Model(TypedDict):
    """A served model.

    - `id`: name of the model, for the field `model`.
    - `object`: always `model`.
    - `created`: start time of the server, in seconds since 1970.
    - `owned_by`: always `self-hosted`.
    - `task`: what the model is for: `embed`, `multi_vector`, `rerank` or `classify`.
    - `adapter`: the task of a model with adapters; null for any other.
    - `dimensions`: number of dimensions of the vectors; null for a model that reranks or
      classifies.
    - `state`: whether the model is in memory; one that is unloaded is loaded by the next request.
    - `name`: same as `id`, for Cohere's clients.
    - `endpoints`: Cohere's names of the APIs that the model answers.
    - `context_length`, `max_context_length`: maximum tokens of a text.
    - `type`: always `base`, for Mistral's clients.
    - `capabilities`: what the model can do, for Mistral's clients.
    - `model_type`: kind of the model, for Xinference's clients.
    """

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    task: Task
    adapter: str | None
    dimensions: NonNegativeInt | None
    state: Literal["loaded", "loading", "unloaded"]
    name: str
    endpoints: list[Endpoint]
    context_length: PositiveInt
    type: Literal["base"]
    capabilities: MistralCapabilities
    max_context_length: PositiveInt
    model_type: ModelType


@forbid_extra
class CohereModel(TypedDict):
    """A served model in Cohere's format.

    - `name`: name of the model, for the field `model`.
    - `endpoints`: Cohere's names of the APIs that the model answers.
    - `finetuned`: always false.
    - `context_length`: maximum tokens of a text.
    - `default_endpoints`: always empty.
    """

    name: str
    endpoints: list[Endpoint]
    finetuned: Literal[False]
    context_length: PositiveInt
    default_endpoints: list[Endpoint]


@forbid_extra
class Models(TypedDict):
    """The served models under all of their names.

    - `object`: always `list`.
    - `data`: an entry for each name of each model.
    - `models`: the same for Cohere's clients.
    """

    object: Literal["list"]
    data: list[Model]
    models: list[CohereModel]


def model_list(registry: ModelRegistry, created: int, endpoint: str | None = None) -> Models:
    """List the served models under all of their names.

    created: creation time of all models, in seconds since 1970.
    endpoint: list only the models of an endpoint for Cohere's clients.
    """
    data = [model_card(name, model, created) for name, model in named(registry)]
    chosen = [card for card in data if endpoint is None or endpoint in card["endpoints"]]
    return {"object": "list", "data": data, "models": [_cohere(card) for card in chosen]}


def named(registry: ModelRegistry) -> Iterator[tuple[str, ServedModel]]:
    """Yield each name with its model."""
    return ((name, model) for model in registry.models for name in model.settings.names)


def model_card(name: str, model: ServedModel, created: int) -> Model:
    """Describe a model under one of its names."""
    length = model.reader.max_length
    return {
        "id": name,
        "object": "model",
        "created": created,
        "owned_by": "self-hosted",
        "task": model.task,
        "adapter": model.adapter,
        "dimensions": model.dimensions.full if model.description.outputs else None,
        "state": model.state,
        "name": name,
        "endpoints": _endpoints(model),
        "context_length": length,
        "type": "base",
        "capabilities": {
            "completion_chat": False,
            "completion_fim": False,
            "function_calling": False,
            "fine_tuning": False,
            "vision": False,
            "classification": model.task == "classify",
        },
        "max_context_length": length,
        "model_type": _MODEL_TYPES[model.task],
    }


def _endpoints(model: ServedModel) -> list[Endpoint]:
    description = model.description
    endpoints: list[Endpoint] = []
    if {DENSE, MULTI} & {*description.outputs}:
        endpoints.append("embed")
    if rerank_score(description.outputs, description.classifier) is not None:
        endpoints.append("rerank")
    labels = description.classifier is not None and description.listwise is None
    return [*endpoints, "classify"] if labels else endpoints


def _cohere(card: Model) -> CohereModel:
    return {
        "name": card["name"],
        "endpoints": card["endpoints"],
        "finetuned": False,
        "context_length": card["context_length"],
        "default_endpoints": [],
    }


_NAME = Path(description="Name of a served model.", examples=[DEFAULT])
_ADMIN_ERRORS = (*BODY_ERRORS, 404, 503, 504)


@forbid_extra
class Stats(TypedDict):
    """Load of a model.

    - `queued_tokens`: number of tokens that wait to be computed.
    """

    queued_tokens: NonNegativeInt


@forbid_extra
class InfinityModel(TypedDict):
    """A served model in Infinity's format.

    - `created`: start time of the server, in seconds since 1970.
    - `id`: name of the model, for the field `model`.
    - `object`: always `model`.
    - `stats`: the model's load now.
    - `capabilities`: the model's task.
    """

    id: str
    object: Literal["model"]
    created: int
    stats: Stats
    capabilities: list[Task]


@forbid_extra
class InfinityModels(TypedDict):
    """The names of the served models.

    - `object`: always `list`.
    - `data`: an entry for each name.
    """

    object: Literal["list"]
    data: list[InfinityModel]


@forbid_extra
class ModelState(TypedDict):
    """A model, and whether it is in memory.

    - `model`: primary name of the model.
    - `state`: whether the model is in memory.
    """

    model: str
    state: Literal["loaded", "loading", "unloaded"]


def router(server: ServerState) -> APIRouter:
    """Create the routes that list the served models."""
    routes = api_router("OpenAI", AUTH_ERRORS, OPENAI)

    @routes.get("/v1/models", summary="List the served models under all of their names")
    async def models(
        endpoint: Annotated[str | None, Query(description=_ENDPOINT)] = None,
    ) -> Models:
        return model_list(server, server.started, endpoint)

    @routes.get("/models", summary="List the names of the served models")
    async def infinity_models() -> InfinityModels:
        data: list[InfinityModel] = [
            {
                "id": name,
                "object": "model",
                "created": server.started,
                "stats": {"queued_tokens": model.admission.queued_tokens},
                "capabilities": [model.task],
            }
            for name, model in named(server)
        ]
        return {"object": "list", "data": data}

    @routes.get(
        "/v1/models/{name:path}",
        summary="Get a model",
        responses=route_responses((404,), OPENAI),
    )
    async def model(name: Annotated[str, _NAME]) -> Model:
        return model_card(name, server.choose(name), server.started)

    return routes


def admin_router(server: ServerState) -> APIRouter:
    """Create the routes that load and unload a model, for requests with an admin key."""
    settings = server.settings
    keys = ApiKeys(settings.admin_keys) if settings.admin_keys else None
    timeout = settings.request_timeout  # seconds until a model is loaded or unloaded
    routes = api_router("status", _ADMIN_ERRORS)

    def check(request: Request) -> None:
        if keys is None:
            raise Forbidden(
                "loading and unloading by request is disabled; set EMBEDWELL_ADMIN_KEY to "
                "enable it",
                code="admin_disabled",
            )
        keys.check({name.lower(): value for name, value in request.headers.raw})

    @routes.post(
        "/models/{name:path}/load",
        summary="Load a model and wait until it is loaded",
        openapi_extra=_admin_sample("load"),
    )
    async def load_model(request: Request, name: Annotated[str, _NAME]) -> ModelState:
        check(request)
        model = server.choose(name)
        await model.engine.load(timeout)
        return {"model": model.name, "state": model.state}

    @routes.post(
        "/models/{name:path}/unload",
        summary="Unload a model until the next request for it",
        openapi_extra=_admin_sample("unload"),
    )
    async def unload_model(request: Request, name: Annotated[str, _NAME]) -> ModelState:
        check(request)
        model = server.choose(name)
        try:
            await model.engine.unload(timeout)
        except TimeoutError:
            message = f"the model was not unloaded within {timeout:.0f} s; try again"
            raise TimedOut(message, retry_after=1) from None
        return {"model": model.name, "state": model.state}

    return routes


def _admin_sample(action: str) -> dict[str, Any]:
    key = '"authorization: Bearer $EMBEDWELL_ADMIN_KEY"'
    return code_sample(f"curl -X POST {ADDRESS}/models/{DEFAULT}/{action} -H {key}")


def unknown_model_router(registry: ModelRegistry) -> APIRouter:
    """Create the undocumented routes of paths that begin with no served model; they list these."""
    routes = APIRouter(include_in_schema=False, route_class=DirectRoute)

    @routes.api_route(MODEL_PREFIX + "{path:path}", methods=["GET", "POST"])
    async def unknown_model(request: Request) -> None:
        names = ", ".join(repr(name) for model in registry.models for name in model.settings.names)
        raise UnknownModel(
            f"no model at {request.url.path[:100]}; this server has {names}", param="model"
        )

    return routes
