"""The OpenAPI document: FastAPI's own, and the operations beneath it."""

from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from service.api.operation import Operation


def document(app: FastAPI, operations: Sequence[Operation[Any]]) -> dict[str, Any]:
    """Everything that can be asked; definitions that bodies share are moved to its components."""
    found = get_openapi(
        title=app.title, version=app.version, description=app.description, routes=app.routes
    )
    shared = found.setdefault("components", {}).setdefault("schemas", {})
    for operation in operations:
        described = operation.describe()
        for media in described["requestBody"]["content"].values():
            shared.update(media["schema"].pop("$defs", {}))
        found["paths"].setdefault(operation.path, {})["post"] = described
    return found
