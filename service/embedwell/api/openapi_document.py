"""The OpenAPI document, and the page /docs that shows it."""

from pathlib import Path

from fastapi import APIRouter, FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.responses import HTMLResponse

from embedwell.api.openapi_responses import OpenAPIObject, components

# FastAPI's own page loads its scripts from a CDN, so it is empty without internet access.
_DOCS_PAGE = (Path(__file__).parent / "docs.html").read_text(encoding="utf-8")


def router() -> APIRouter:
    """Create the routes of this module."""
    routes = APIRouter()

    @routes.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return HTMLResponse(_DOCS_PAGE)

    return routes


def openapi_document(app: FastAPI) -> OpenAPIObject:
    """Build FastAPI's document, with the components to which the documented responses refer.

    A setting decides whether routes require a key, so they are documented as working with and
    without one. Status 422 is removed, because an invalid request gets status 400.
    """
    document = get_openapi(
        title=app.title, version=app.version, description=app.description, routes=app.routes
    )
    for operations in document["paths"].values():
        for operation in operations.values():
            responses = operation["responses"]
            responses.pop("422", None)
            operation["security"] = [{}, {"key": []}] if "401" in responses else []
    shared = components()
    schemas = document["components"]["schemas"] | shared["schemas"]
    unused = ("HTTPValidationError", "ValidationError")
    shared["schemas"] = {name: schemas[name] for name in sorted(schemas) if name not in unused}
    return {**document, "components": shared}
