"""Routes of a package that is imported when one of them is used."""

from collections.abc import Callable
from functools import cached_property

from fastapi import APIRouter
from fastapi.routing import APIRoute
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from embedwell.http.route_traits import RouteTraits
from embedwell.routes.common.router import DirectRoute


class LazyRoute(DirectRoute):
    """A route of a package that its first request imports, or the OpenAPI document."""

    def __init__(
        self, method: str, path: str, traits: RouteTraits, load: Callable[[], APIRouter]
    ) -> None:
        """load: imports the package; returns its router, which has this method and path."""
        Route.__init__(self, path, self._serve, methods=[method])
        self.methods, self.body_type = {method}, None  # without HEAD, see head_routes
        self.app, self.traits, self._load = self._serve, traits, load

    @cached_property
    def loaded(self) -> DirectRoute:
        """The package's route."""
        routes = (route for route in self._load().routes if isinstance(route, DirectRoute))
        mine = self.path, self.methods
        return next(route for route in routes if (route.path, route.methods) == mine)

    @cached_property
    def of_fastapi(self) -> APIRoute:
        return self.loaded.of_fastapi

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.loaded.app(scope, receive, send)
