"""POST /: what the model computes, as in TEI; of several, the one in the path."""

from collections.abc import Mapping

from fastapi import APIRouter
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from embedwell.compute.served_model import ServedModel
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
    """Create the undocumented route /: the route of the task that all models have, if they do."""
    paths = {PATHS[root_task(model)] for model in server.models}
    if len(paths) == 1:
        return APIRouter(routes=[server.routes[paths.pop()].at("/")])
    models = server.choice(lambda model: model, DENSE, MULTI)
    root = RootOfModels(server.routes, models)
    return APIRouter(routes=[Route("/", root, methods=["POST"])])
