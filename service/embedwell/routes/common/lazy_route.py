"""Routes whose module is imported when one of them is used."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from fastapi import APIRouter
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from embedwell.http.error_responses import ErrorFormat
from embedwell.http.route_traits import RouteTraits
from embedwell.routes.common.router import DirectRoute


@dataclass(frozen=True)
class RouteEntry:
    """Description of a route whose module is not imported yet.

    methods: separated by spaces.
    tag: groups the routes in the OpenAPI document.
    alias_of: the documented path of the same endpoint, which labels its metrics; "" for its own.
    documented: whether it is in the OpenAPI document, where aliases are not.
    by_fastapi: whether FastAPI routes its POST requests.
    """

    methods: str
    path: str
    traits: RouteTraits
    tag: str = ""
    alias_of: str = ""
    documented: bool = True
    by_fastapi: bool = False


def entries(  # noqa: PLR0913 - the fields
    methods: str,
    error_format: ErrorFormat,
    *paths: str,
    tag: str = "",
    alias_of: str = "",
    documented: bool = True,
    by_fastapi: bool = False,
    **traits: Any,
) -> Sequence[RouteEntry]:
    """Describe routes that differ only in their paths. traits: the other fields of RouteTraits."""
    shared = RouteTraits(error_format, **traits)
    options = (shared, tag, alias_of, documented, by_fastapi)
    return [RouteEntry(methods, path, *options) for path in paths]


class LazyRoute(DirectRoute):
    """A route whose module is imported by its first request, or by the OpenAPI document."""

    def __init__(self, entry: RouteEntry, load: Callable[[], APIRouter]) -> None:
        """load: imports the module; returns its router, which has this route."""
        self._entry, self._load, self.body_type = entry, load, None
        documented = entry.documented and not entry.alias_of
        Route.__init__(self, entry.path, self._serve, include_in_schema=documented)
        self.methods, self.tags = {*entry.methods.split()}, [entry.tag]
        self.app, self.traits = self._serve, entry.traits

    @property
    def is_direct(self) -> bool:
        return "POST" in self._entry.methods and not self._entry.by_fastapi

    @property
    def responder(self) -> object:
        return self._entry.alias_of or self._entry.path

    @cached_property
    def loaded(self) -> Route:
        """The module's route."""
        routes = (route for route in self._load().routes if isinstance(route, Route))
        mine = self._entry.path, {*self._entry.methods.split()}
        return next(route for route in routes if (route.path, route.methods) == mine)

    @cached_property
    def of_fastapi(self) -> APIRoute:
        assert isinstance(self.loaded, DirectRoute)
        return self.loaded.of_fastapi

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.loaded.app(scope, receive, send)


def lazy_routes(
    entries: Sequence[RouteEntry], create_router: Callable[[], APIRouter]
) -> list[BaseRoute]:
    """Return the routes of a router that is created when one of them is used."""
    create_once = cache(create_router)
    return [LazyRoute(entry, create_once) for entry in entries]
