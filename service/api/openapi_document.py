"""The OpenAPI document, and the page that shows it."""

from pathlib import Path

from fastapi import APIRouter, FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.responses import HTMLResponse

from service.api.openapi_responses import Described, components

# FastAPI's page loads its scripts from a CDN, and is empty where there is no way out.
_PAGE = (Path(__file__).parent / "docs.html").read_text(encoding="utf-8")


def router() -> APIRouter:
    """The routes of this module."""
    routes = APIRouter()

    @routes.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return HTMLResponse(_PAGE)

    return routes


def document(app: FastAPI) -> Described:
    """FastAPI's document, with the components that its responses refer to.

    A route that may refuse a key may be asked with or without one: whether there is one is a
    setting. 422 is never answered: what is wrong with a request is 400.
    """
    found = get_openapi(
        title=app.title, version=app.version, description=app.description, routes=app.routes
    )
    for methods in found["paths"].values():
        for operation in methods.values():
            responses = operation["responses"]
            responses.pop("422", None)
            operation["security"] = [{}, {"key": []}] if "401" in responses else []
    shared = components()
    schemas = found["components"]["schemas"] | shared["schemas"]
    unused = ("HTTPValidationError", "ValidationError")
    shared["schemas"] = {name: schemas[name] for name in sorted(schemas) if name not in unused}
    return {**found, "components": shared}
