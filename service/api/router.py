"""FastAPI's router, with a short way for POST: from the bytes of a body to those of a response."""

import copy
import inspect
from collections.abc import Callable, Iterable
from functools import partial
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, Header, Request
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from service.api.array_format import Raw
from service.api.body import Body
from service.api.json_dump import LARGE, dump, dump_response
from service.request.json_limits import check_parts
from service.request.request_context import RequestContext
from service.request.run_in_thread import run_in_thread

B = TypeVar("B", bound=Body)

_SMALL = 1 << 16  # bytes of a body, which are read in a few milliseconds, whatever they say
_JSON = (b"content-type", b"application/json")
_READS_A_BODY = {
    "parameters": [
        {
            "name": "content-encoding",
            "in": "header",
            "required": False,
            "schema": {"type": "string", "enum": ["gzip", "deflate", "identity"]},
        }
    ],
    "requestBody": {
        "description": "JSON in UTF-8. It is also read as application/…+json, text/plain, "
        "application/x-www-form-urlencoded and without a type.",
    },
}


def request_context(
    request: Request,
    x_request_id: Annotated[str, Header()] = "",
    traceparent: Annotated[str, Header()] = "",
) -> RequestContext:
    """The context of this request: its id, its timings, and the memory that it may take."""
    context: RequestContext = request.state.context
    return context


Context = Annotated[RequestContext, Depends(request_context)]


class JsonRoute(APIRoute):
    """A route whose endpoint takes `(context: Context, body: …)`, a Body, is called directly.

    The endpoint returns content for JSON, or Raw. FastAPI would parse the body to a dict, validate
    that, resolve dependencies, validate the response and encode it: longer than a short text takes
    to embed. Any other endpoint is served as FastAPI serves it.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        self.body_type = _body_type(endpoint)
        if self.body_type is not None:
            options["openapi_extra"] = _READS_A_BODY
        super().__init__(path, endpoint, **options)
        if self.body_type is not None:
            self.app = self._respond

    async def _respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Raises ValidationError for a wrong body, and ServiceError."""
        context: RequestContext = scope["state"]["context"]
        assert self.body_type is not None
        content = await self.endpoint(context, await read_body(self.body_type, context, receive))
        if isinstance(content, Raw):
            payload, headers = content.payload, content.head()
        else:
            large = context.memory.size > LARGE
            payload = await dump_response(context, content) if large else dump(content)
            headers = [_JSON, (b"content-length", b"%d" % len(payload))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": payload})


def api_router(tag: str) -> APIRouter:
    """A router for the routes of an API, which are shown under a tag."""
    return APIRouter(
        tags=[tag],
        route_class=JsonRoute,
        dependencies=[Depends(request_context)],
        generate_unique_id_function=lambda route: route.name,
    )


def direct_routes(routes: Iterable[BaseRoute]) -> dict[str, Route]:
    """The routes whose endpoints are called directly, by their paths.

    Several paths of one endpoint have the route that is documented, under which they are counted.
    """
    direct = [each for each in routes if isinstance(each, JsonRoute) and each.body_type]
    documented = {each.endpoint: each for each in direct if each.include_in_schema}
    return {each.path: documented.get(each.endpoint, each) for each in direct}


def head_routes(routes: Iterable[BaseRoute]) -> list[Route]:
    """HEAD for each GET, which health checks send; it is not documented."""
    heads = []
    for route in routes:
        if isinstance(route, Route) and "GET" in (route.methods or ()):
            head = copy.copy(route)
            head.methods, head.include_in_schema = {"HEAD"}, False
            heads.append(head)
    return heads


async def read_body(model: type[B], context: RequestContext, receive: Receive) -> B:
    """The body of a request; raises ValidationError for a wrong one, and ServiceError."""
    text = await _read(receive)
    context.size = len(text)
    if context.size <= _SMALL:
        return _parse(model, text)
    return await run_in_thread(partial(_parse, model, text), small=False)


def _body_type(endpoint: Callable[..., Any]) -> type[Body] | None:
    """The type of the body, of an endpoint that takes that and the context alone."""
    match [parameter.annotation for parameter in inspect.signature(endpoint).parameters.values()]:
        case [context, type() as body] if context == Context and issubclass(body, Body):
            return body
    return None


def _parse(model: type[B], text: bytes) -> B:
    check_parts(text)
    return model.model_validate_json(text)


async def _read(receive: Receive) -> bytes:
    message = await receive()
    body: bytes = message.get("body", b"")
    return await _rest(body, receive) if message.get("more_body", False) else body


async def _rest(begun: bytes, receive: Receive) -> bytes:
    body, more = bytearray(begun), True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return bytes(body)
