"""GET /playground: the page, its scripts and its styles, without requests to any other host."""

from pathlib import Path

from fastapi import APIRouter, Request, Response
from starlette.responses import RedirectResponse
from starlette.staticfiles import StaticFiles

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


def router() -> APIRouter:
    """Create the routes of the page. Its files are read at each request."""
    routes = APIRouter()
    files = StaticFiles(directory=_FOLDER)

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
