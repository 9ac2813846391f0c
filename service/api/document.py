"""The OpenAPI document, FastAPI's own and the operations beneath it, and the page that shows it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.responses import HTMLResponse

from service.api.operation import Operation

# FastAPI's page loads its scripts from a CDN, and is empty where there is no way out.
_PAGE = (Path(__file__).parent / "docs.html").read_text(encoding="utf-8")


def router() -> APIRouter:
    """The routes of this module."""
    routes = APIRouter()

    @routes.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return HTMLResponse(_PAGE)

    return routes


def document(app: FastAPI, operations: Sequence[Operation[Any]]) -> dict[str, Any]:
    """Everything that can be asked; definitions that bodies share are moved to its components."""
    found = get_openapi(
        title=app.title, version=app.version, description=app.description, routes=app.routes
    )
    shared = found.setdefault("components", {}).setdefault("schemas", {})
    paths: dict[str, Any] = {}
    for operation in operations:
        described = operation.describe()
        for media in described["requestBody"]["content"].values():
            shared.update(media["schema"].pop("$defs", {}))
        paths[operation.path] = {"post": described}
    for path, methods in found["paths"].items():
        paths.setdefault(path, {}).update(methods)
    return {**found, "paths": paths}
