"""POST / of several models: what the model in the path computes, as in TEI."""

from collections.abc import Mapping

from fastapi import APIRouter
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from embedwell.inference.served_model import ServedModel
from embedwell.routes.common.model_registry import ModelChoice, root_task
from embedwell.routes.common.offered_routes import PATHS
from embedwell.routes.common.server_state import ServerState
from embedwell_models.output_names import DENSE, MULTI


class RootOfModels:
    """ASGI application that answers a request as the route of the chosen model does."""

    def __init__(self, routes: Mapping[str, Route], models: ModelChoice[ServedModel]) -> None:
        """routes: the routes by path."""
        self._routes, self._models = routes, models

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond to a request; raises ServiceError."""
        path = PATHS[root_task(self._models.choose())]
        await self._routes[path].app(scope, receive, send)


def router(server: ServerState) -> APIRouter:
    """Create the undocumented route / for models of different tasks.

    If all have the same task, the route of that task is there.
    """
    if "/" in server.routes:
        return APIRouter()
    models = server.choice(lambda model: model, DENSE, MULTI)
    root = RootOfModels(server.routes, models)
    return APIRouter(routes=[Route("/", root, methods=["POST"])])
