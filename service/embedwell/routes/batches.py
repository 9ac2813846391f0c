"""Routes of the package of batches, which is imported at the start only if there is a folder."""

from dataclasses import replace
from functools import cache, partial

from fastapi import APIRouter

from embedwell import doors
from embedwell.http.error_responses import OPENAI
from embedwell.http.route_traits import RouteTraits
from embedwell.routes.common.lazy_route import LazyRoute
from embedwell.routes.common.server_state import ServerState

_UPLOAD = "/v1/files"
_ROUTES = (
    ("GET", _UPLOAD),
    ("GET", "/v1/files/{id}"),
    ("GET", "/v1/files/{id}/content"),
    ("DELETE", "/v1/files/{id}"),
    ("POST", "/v1/batches"),
    ("GET", "/v1/batches"),
    ("GET", "/v1/batches/{id}"),
    ("POST", "/v1/batches/{id}/cancel"),
)


def router(server: ServerState) -> APIRouter:
    """Create the routes; without a folder, those that import the package when they are used."""
    if server.settings.batch_folder is not None:
        return _load(server)
    load = cache(partial(_load, server))
    traits = RouteTraits(OPENAI)
    rest = (LazyRoute(method, path, traits, load) for method, path in _ROUTES)
    return APIRouter(
        routes=[LazyRoute("POST", _UPLOAD, replace(traits, uploads=True), load), *rest]
    )


def _load(server: ServerState) -> APIRouter:
    router: APIRouter = doors.load("embedwell_batches.routes:router")(server)
    return router
