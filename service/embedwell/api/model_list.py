"""GET /v1/models, OpenAI's list of models, and GET /models, Infinity's list."""

from collections.abc import Iterator
from typing import Annotated, Any

from fastapi import APIRouter, Path

from embedwell.api.model_choice import ModelChoice
from embedwell.api.openapi_responses import AUTH_ERRORS, route_responses
from embedwell.api.router import api_router
from embedwell.api.schemas.common import OpenAIError
from embedwell.api.schemas.vendors import InfinityModels, Model, Models
from embedwell.inference.served_model import ServedModel
from embedwell_models.hub.sources import DEFAULT

_NAME = Path(examples=[DEFAULT])


def router(models: ModelChoice[ServedModel], created: int) -> APIRouter:
    """Create the routes of this module.

    created: creation time of all models, in seconds since 1970.
    """
    routes, responses = api_router("OpenAI"), route_responses(AUTH_ERRORS, OpenAIError)

    @routes.get(
        "/v1/models",
        summary="List the served models under all of their names",
        response_model=Models,
        responses=responses,
        name="models",
    )
    async def list_models() -> Any:
        data = [_entry(name, model, created) for name, model in _named(models)]
        return {"object": "list", "data": data}

    @routes.get(
        "/models",
        summary="List the names of the served models",
        response_model=InfinityModels,
        responses=responses,
    )
    async def infinity_models() -> Any:
        data = [
            {
                "id": name,
                "object": "model",
                "created": created,
                "stats": {"queued_tokens": model.admission.queued_tokens},
                "capabilities": [model.task],
            }
            for name, model in _named(models)
        ]
        return {"object": "list", "data": data}

    @routes.get(
        "/v1/models/{name:path}",
        summary="Get a model",
        response_model=Model,
        responses=route_responses((*AUTH_ERRORS, 404), OpenAIError),
        name="model",
    )
    async def get_model(name: Annotated[str, _NAME]) -> Any:
        return _entry(name, models.choose(name), created)

    return routes


def _named(models: ModelChoice[ServedModel]) -> Iterator[tuple[str, ServedModel]]:
    return ((name, model) for model in models.services for name in model.settings.names)


def _entry(name: str, model: ServedModel, created: int) -> dict[str, Any]:
    return {
        "id": name,
        "object": "model",
        "created": created,
        "owned_by": "self-hosted",
        "task": model.task,
        "adapter": model.adapter,
        "dimensions": model.dimensions.full if model.folder.outputs else None,
        "state": model.state,
    }
