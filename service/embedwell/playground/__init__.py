"""GET /playground: the page, its scripts and its styles, without requests to any other host."""

from pathlib import Path

from fastapi import APIRouter, Request, Response
from starlette.datastructures import Headers
from starlette.responses import RedirectResponse
from starlette.routing import Match
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from embedwell.http.route_traits import RouteTraits
from embedwell.routes.common.router import DirectRoute
from embedwell.routes.common.server_state import ServerState

PATH = "/playground"

_FOLDER = Path(__file__).parent / "static"
_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
        "connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",  # the address of a view contains its texts
    "cache-control": "no-cache",  # revalidated by ETag, so that versions never mix
}


class _PageRoute(DirectRoute):
    """A route that needs no key; the requests that its page sends do."""

    traits = RouteTraits(without_key=True)


class _BrowserRoute(_PageRoute):
    """A route for clients that accept HTML; other clients get the next route of the path."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        match, child_scope = super().matches(scope)
        if match == Match.FULL and "text/html" in Headers(scope=scope).get("accept", ""):
            return match, child_scope
        return Match.NONE, {}


def router(server: ServerState) -> APIRouter:
    """Create the routes of the page, and of / for browsers; none if the settings say so.

    The files are read at each request.
    """
    routes = APIRouter(route_class=_PageRoute)
    if not server.settings.playground:
        return routes
    files = StaticFiles(directory=_FOLDER)

    async def root() -> Response:
        return RedirectResponse("playground", headers={"vary": "accept"})

    routes.add_api_route("/", root, include_in_schema=False, route_class_override=_BrowserRoute)

    @routes.get(PATH, include_in_schema=False)
    async def page(request: Request) -> Response:
        return await _file(files, "index.html", request)

    @routes.get(f"{PATH}/", include_in_schema=False)
    async def page_with_slash() -> Response:
        # Relative, because the address that the browser uses may be a gateway's.
        return RedirectResponse("../playground")

    @routes.get(PATH + "/{path:path}", include_in_schema=False)
    async def file(path: str, request: Request) -> Response:
        return await _file(files, path, request)

    return routes


async def _file(files: StaticFiles, path: str, request: Request) -> Response:
    """Read a file; raises HTTPException 404."""
    response = await files.get_response(path, request.scope)
    response.headers.update(_HEADERS)
    return response
