"""The OpenAPI document, and the page that shows it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute
from starlette.responses import HTMLResponse

from service.api.operation import Operation
from service.api.responses import Described, components

# FastAPI's page loads its scripts from a CDN, and is empty where there is no way out.
_PAGE = (Path(__file__).parent / "docs.html").read_text(encoding="utf-8")
_HEADERS = [
    {"name": name, "in": "header", "required": False, "schema": {"type": "string"}}
    for name in ("x-request-id", "traceparent")
]


def router() -> APIRouter:
    """The routes of this module."""
    routes = APIRouter()

    @routes.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return HTMLResponse(_PAGE)

    return routes


def document(app: FastAPI, operations: Sequence[Operation[Any]]) -> Described:
    """Everything that can be asked, and everything that can be answered.

    FastAPI's own would promise answers that are never given. Definitions that schemas share are
    moved to the components.
    """
    paths: Described = {each.path: {"post": each.describe()} for each in operations}
    for route in app.routes:
        if isinstance(route, APIRoute) and route.include_in_schema:
            paths.setdefault(route.path_format, {})["get"] = _get(route)
    for methods in paths.values():
        for each in methods.values():
            each["parameters"] = [*each.get("parameters", []), *_HEADERS]
    found: Described = {
        "openapi": "3.1.0",
        "info": {"title": app.title, "version": app.version, "description": app.description},
        "paths": paths,
        "components": components(),
    }
    schemas: Described = {}
    found = _hoisted(found, schemas)
    found["components"]["schemas"] = dict(sorted(schemas.items()))
    return found


def _get(route: APIRoute) -> Described:
    head = {"tags": route.tags, "summary": route.summary, "operationId": route.unique_id}
    return {**head, **(route.openapi_extra or {})}


def _hoisted(node: Any, schemas: Described) -> Any:
    """A node without the definitions in it, which are put into schemas."""
    if isinstance(node, list):
        return [_hoisted(child, schemas) for child in node]
    if not isinstance(node, dict):
        return node
    rest = {name: _hoisted(child, schemas) for name, child in node.items()}
    schemas.update(rest.pop("$defs", {}))
    return rest
