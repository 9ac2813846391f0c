"""POST /models/NAME/load and /models/NAME/unload: load and unload models with an admin key."""

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request

from embedwell.api.model_choice import ModelChoice
from embedwell.api.openapi_responses import BODY_ERRORS, route_responses
from embedwell.api.router import api_router
from embedwell.api.schemas.status import ModelState
from embedwell.errors import Forbidden, TimedOut
from embedwell.inference.served_model import ServedModel
from embedwell_models.hub.sources import DEFAULT

_ERRORS = (*BODY_ERRORS, 404, 503, 504)
_NAME = Path(examples=[DEFAULT])

KeyCheck = Callable[[Any], None]
"""Raises Unauthorized unless the request's headers have an admin key."""


def router(
    models: ModelChoice[ServedModel], check_key: KeyCheck | None, timeout: float
) -> APIRouter:
    """Create the routes of this module.

    check_key: None if the server has no admin key.
    timeout: seconds to wait until a model is loaded or unloaded.
    """
    routes, responses = api_router("status"), route_responses(_ERRORS)

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
        response_model=ModelState,
        responses=responses,
        name="load_model",
    )
    async def load(request: Request, name: Annotated[str, _NAME]) -> Any:
        check(request)
        model = models.choose(name)
        await model.engine.load(timeout)
        return {"model": model.name, "state": model.state}

    @routes.post(
        "/models/{name:path}/unload",
        summary="Unload a model until the next request for it",
        response_model=ModelState,
        responses=responses,
        name="unload_model",
    )
    async def unload(request: Request, name: Annotated[str, _NAME]) -> Any:
        check(request)
        model = models.choose(name)
        try:
            await model.engine.unload(timeout)
        except TimeoutError:
            message = f"the model was not unloaded within {timeout:.0f} s; try again"
            raise TimedOut(message, retry_after=1) from None
        return {"model": model.name, "state": model.state}

    return routes
