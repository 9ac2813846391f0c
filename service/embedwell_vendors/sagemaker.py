"""POST /invocations: requests of SageMaker, whose fields tell which route they are meant for."""

from collections.abc import Mapping
from typing import Any

import orjson
from fastapi import APIRouter
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from embedwell.compute.served_model import ServedModel
from embedwell.compute.work_queue import run_in_thread
from embedwell.http.request_context import RequestContext
from embedwell.routes.common.body import check_json_parts
from embedwell.routes.common.router import receive_body
from embedwell.routes.common.server_state import ModelChoice, ServerState
from embedwell_models.outputs.names import DENSE, MULTI

_SMALL_BODY = 1 << 16  # bytes; parsing so many takes a few milliseconds

_PATHS = {"queries": "/score", "text_1": "/score", "texts": "/rerank", "documents": "/rerank"}
"""Routes by a field that only their requests have, in order of precedence."""


class Invocations:
    """ASGI application that answers a request as the route does whose fields it has."""

    def __init__(self, routes: Mapping[str, Route], models: ModelChoice[ServedModel]) -> None:
        """routes: the routes by path."""
        self._routes, self._models = routes, models

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond to a request; raises ServiceError."""
        context: RequestContext = scope["state"]["context"]
        content = await receive_body(receive)
        check_json_parts(content)
        context.memory.grow(len(content))
        body = await run_in_thread(_parse, content, small=len(content) <= _SMALL_BODY)

        async def received() -> Message:
            return {"type": "http.request", "body": content, "more_body": False}

        await self._routes[self._path(body)].app(scope, received, send)

    def _path(self, body: dict[str, Any]) -> str:
        for field, path in _PATHS.items():
            if body.get(field) is not None:
                return path
        name = body.get("model")
        model = self._models.choose(name if isinstance(name, str) else None)
        if body.get("input") is not None:
            return "/v1/embeddings" if model.description.classifier is None else "/classify"
        if model.description.classifier is not None:
            return "/predict"
        return "/embed" if {DENSE, MULTI} & {*model.description.outputs} else "/embed_sparse"


def router(server: ServerState) -> APIRouter:
    """Create the undocumented route /invocations; SageMaker's health check is GET /ping."""
    invocations = Invocations(server.routes, server.choice(lambda model: model))
    return APIRouter(routes=[Route("/invocations", invocations, methods=["POST"])])


def _parse(content: bytes) -> dict[str, Any]:
    """Return the fields of a body; none unless it is an object, which the route refuses."""
    try:
        body = orjson.loads(content)
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}
