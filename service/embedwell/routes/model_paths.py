"""Paths below /m that begin with no served model, for an error that lists the models."""

from fastapi import APIRouter, Request

from embedwell.errors import UnknownModel
from embedwell.http.model_paths import PREFIX
from embedwell.routes.common.model_registry import ModelRegistry

_METHODS = ["GET", "POST"]


def router(registry: ModelRegistry) -> APIRouter:
    """Create the undocumented routes; the middleware answers the paths of served models."""
    routes = APIRouter(include_in_schema=False)

    @routes.api_route(PREFIX + "{path:path}", methods=_METHODS)
    async def unknown_model(request: Request) -> None:
        names = ", ".join(repr(name) for model in registry.models for name in model.settings.names)
        raise UnknownModel(
            f"no model at {request.url.path[:100]}; this server has {names}", param="model"
        )

    return routes
