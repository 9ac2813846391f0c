"""FastAPI routes that parse a POST body and serialise the response without FastAPI's overhead.

Errors name the routes of tasks and outputs.
"""

import copy
import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, wraps
from itertools import chain
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, FastAPI, Header, Request, Response
from fastapi.routing import APIRoute
from pydantic import ValidationError
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from embedwell.compute.work_queue import run_in_thread
from embedwell.errors import BadRequest, InputTooLong, NotOffered, ServiceError
from embedwell.http.error_responses import NATIVE, ErrorFormat
from embedwell.http.request_context import RequestContext
from embedwell.http.route_traits import RouteTraits, TraitsByPath
from embedwell.routes.common.body import Body, check_json_parts
from embedwell.routes.common.openapi_responses import ENGINE_ERRORS, route_responses
from embedwell.routes.common.options import truncation_advice
from embedwell.routes.common.response_body import LARGE_REQUEST, BinaryResponse, dump, dump_response
from embedwell_models.outputs.names import DECISION, DENSE, LABELS, MULTI, SPARSE, SPARSE_QUERY

PATHS = {
    "classify": "/predict",
    "rerank": "/rerank",
    DENSE: "/embed",
    MULTI: "/embed",
    SPARSE: "/embed_sparse",
    DECISION: "/v1/decisions",
    LABELS: "/zero-shot-classification",
}
"""Path of each task or output of a model."""

_TASKS = {
    "embed": f"{PATHS[DENSE]}, or to /similarity to compare texts",
    **{task: PATHS[task] for task in ("classify", "rerank")},
}
_OUTPUTS = {
    DENSE: f"POST {PATHS[DENSE]}",
    MULTI: f"POST {PATHS[MULTI]}, a vector for each token",
    SPARSE: f"POST {PATHS[SPARSE]}",
    SPARSE_QUERY: "of queries",
    DECISION: f"POST {PATHS[DECISION]}",
    LABELS: f"POST {PATHS[LABELS]}",
}


def advice(offered: Collection[str]) -> str:
    """Return the end of a message: the routes of a task, or of outputs; "" for nothing."""
    tasks = [_TASKS[name] for name in offered if name in _TASKS]
    if tasks:
        return f"; send the request to {tasks[0]}"
    outputs = " and ".join(f"{name} ({_OUTPUTS[name]})" for name in offered)
    return outputs and f"; it has {outputs}"


# Bytes; parsing so many takes a few milliseconds, independent of their content.
_SMALL_BODY = 1 << 16
_TINY_BODY = 1 << 10  # bytes; a client that hangs up is not worth a system call for so few
_JSON = (b"content-type", b"application/json")
_REQUEST_ID = (
    "Id of the request, which the response and the log repeat: up to 128 letters, digits and "
    "`_.:/+=@-`. Default: a new one."
)
_TRACEPARENT = "Trace that the request belongs to, in W3C's format."
_BODY_DESCRIPTION = {
    "parameters": [
        {
            "name": "content-encoding",
            "in": "header",
            "required": False,
            "description": "How the body is compressed. Default: not at all.",
            "schema": {"type": "string", "enum": ["gzip", "deflate", "identity"]},
        }
    ],
    "requestBody": {
        "description": (
            "JSON in UTF-8. The server also accepts it without a content type, or as "
            "application/…+json, text/plain or application/x-www-form-urlencoded."
        ),
    },
}

B = TypeVar("B", bound=Body)


def request_context(
    request: Request,
    x_request_id: Annotated[str, Header(description=_REQUEST_ID)] = "",
    traceparent: Annotated[str, Header(description=_TRACEPARENT)] = "",
) -> RequestContext:
    """Return the context of a request: its id, its timings and its memory reservation."""
    context: RequestContext = request.state.context
    return context


RequestDep = Annotated[RequestContext, Depends(request_context)]


class DirectRoute(APIRoute):
    """Calls an endpoint `(context: RequestDep, body: …)` directly, if its body type is a Body.

    The endpoint returns content for JSON, or a BinaryResponse. FastAPI would parse the body to a
    dict, validate it, resolve dependencies, validate the response and encode it. That takes longer
    than embedding a short text.

    A coroutine function without parameters is called directly, too: health checks and metrics need
    none of FastAPI's imports, which take 10 MB. It returns content for JSON, or a Response. FastAPI
    serves any other endpoint, and one with a status or with further dependencies.

    FastAPI's own route, which takes a millisecond to create, is created by the first request that
    it serves, or by the OpenAPI document.

    traits: what the middleware must know of the route.
    """

    traits: RouteTraits = RouteTraits()

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        self.body_type = _body_type(endpoint)
        described = {name: options[name] for name in ("methods", "name", "include_in_schema")}
        Route.__init__(self, path, endpoint, **described)
        self.methods = {*(options["methods"] or ["GET"])}  # without HEAD, see head_routes
        self.tags, self._options = options["tags"], options
        if self.body_type is not None:
            self._options = {**options, "openapi_extra": _BODY_DESCRIPTION}
            self.app = self._respond
        elif _is_without_input(endpoint, options):
            self.app = self._respond_without_input
        else:
            self.app = self._serve

    @property
    def is_direct(self) -> bool:
        """Whether its POST requests are not routed by FastAPI."""
        return self.body_type is not None

    @property
    def responder(self) -> object:
        """The function that responds to its requests; the paths of an endpoint share it."""
        return self.endpoint

    def at(self, path: str) -> "DirectRoute":
        """Return an undocumented route of another path that responds in the same way."""
        other = copy.copy(self)
        Route.__init__(other, path, self.endpoint, methods=["POST"], include_in_schema=False)
        other.app = self.app
        return other

    @cached_property
    def of_fastapi(self) -> APIRoute:
        """FastAPI's own route, which has parameters and responses for the OpenAPI document."""
        own = {"methods": self.methods, "include_in_schema": self.include_in_schema}
        return APIRoute(self.path, _with_all_fields(self.endpoint), **{**self._options, **own})

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.of_fastapi.app(scope, receive, send)

    async def _respond_without_input(self, scope: Scope, receive: Receive, send: Send) -> None:
        content = await self.endpoint()
        if not isinstance(content, Response):
            content = Response(dump(content), media_type="application/json")
        await content(scope, receive, send)

    async def _respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond to a request; raises ServiceError."""
        context: RequestContext = scope["state"]["context"]
        assert self.body_type is not None
        request = await read_body(self.body_type, context, receive)
        if not request.model_fields_set.isdisjoint(request.voyage_fields):
            _use_format_for_voyage(context)
        try:
            content = await self.endpoint(context, request)
        except (ServiceError, ValidationError):
            with errors_completed(request):  # which would take a microsecond of every request
                raise
        if isinstance(content, BinaryResponse):
            body, headers = content.body, content.headers()
        else:
            large = context.memory.size > LARGE_REQUEST
            body = await dump_response(context, content) if large else dump(content)
            headers = [_JSON, (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def api_router(
    tag: str,
    errors: Sequence[int] = ENGINE_ERRORS,
    error_format: ErrorFormat = NATIVE,
    *,
    base_path: str = "",
    always_computes: bool = True,
) -> APIRouter:
    """Create a router for the routes of an API.

    tag: groups the routes in the OpenAPI document; one of TAGS in `openapi_document`.
    errors: error statuses of every route; a route can have further ones.
    error_format: format of the errors, also of unknown paths below `base_path`.
    always_computes: whether all requests wait for an engine, if `errors` are those of an engine.
    """
    computes = always_computes and errors == ENGINE_ERRORS
    traits = RouteTraits(error_format, base_path, computes=computes)
    return APIRouter(
        tags=[tag],
        responses=route_responses(errors, error_format),
        route_class=_route_class(traits),
        dependencies=[Depends(request_context)],
        generate_unique_id_function=lambda route: route.name,
    )


def with_traits(router: APIRouter, **traits: Any) -> APIRouter:
    """Return a view of a router, whose further routes have other traits.

    traits: fields of RouteTraits that differ from those of the router.
    """
    view = copy.copy(router)  # with the same list of routes
    assert issubclass(router.route_class, DirectRoute)
    view.route_class = _route_class(replace(router.route_class.traits, **traits))
    return view


def _route_class(traits: RouteTraits) -> type[DirectRoute]:
    return type(DirectRoute.__name__, (DirectRoute,), {"traits": traits})


def traits_by_path(routes: Iterable[BaseRoute]) -> TraitsByPath:
    """Collect the traits of routes; those of other kinds have the traits of a DirectRoute."""
    return TraitsByPath(
        (route.path, getattr(route, "traits", DirectRoute.traits))
        for route in routes
        if isinstance(route, Route)
    )


def direct_routes(*routers: APIRouter | FastAPI) -> dict[str, DirectRoute]:
    """Map paths of routers to the routes whose endpoints are called directly.

    Undocumented paths of an endpoint map to its documented route, whose path labels its metrics,
    with their own traits.
    """
    routes = chain.from_iterable(router.routes for router in routers)
    direct = [route for route in routes if isinstance(route, DirectRoute) and route.is_direct]
    documented = {route.responder: route for route in direct if route.include_in_schema}
    by_path: dict[str, DirectRoute] = {}
    for route in direct:  # of several routes of a path, Starlette takes the first, too
        if route.path not in by_path:
            called = copy.copy(documented.get(route.responder, route))
            called.traits = route.traits
            by_path[route.path] = called
    return by_path


def head_routes(routes: Iterable[BaseRoute]) -> list[Route]:
    """Create an undocumented HEAD route for each GET route, for health checks."""
    heads = []
    for route in routes:
        if isinstance(route, Route) and "GET" in (route.methods or ()):
            head = copy.copy(route)
            head.methods, head.include_in_schema = {"HEAD"}, False
            heads.append(head)
    return heads


@contextmanager
def errors_completed(body: Body) -> Iterator[None]:
    """Add to errors what the body and the routes know, see `complete_error`."""
    try:
        yield
    except ServiceError as error:
        complete_error(error, body)
        raise
    except ValidationError as error:  # of another body, to which this one was converted
        raise _invalid_body(error, type(body)) from None


def complete_error(error: ServiceError, body: Body) -> None:
    """Add the field of the input, other routes, and the fields that allow truncation."""
    if isinstance(error, NotOffered):
        error.message += advice(error.offered)
    if isinstance(error, InputTooLong):
        error.message += truncation_advice(type(body).widest())
    error.name_field(name for name in body.input_fields if name in body.model_fields_set)


async def read_body(body_type: type[B], context: RequestContext, receive: Receive) -> B:
    """Read and validate the body of a request; raises ServiceError."""
    content = await receive_body(receive)
    context.body_bytes = len(content)
    if context.body_bytes > _TINY_BODY:
        context.check_connected()
    try:
        if context.body_bytes <= _SMALL_BODY:
            return _parse(body_type, content)
        return await run_in_thread(_parse, body_type, content, small=False)
    except BadRequest:
        if body_type.widest().has_voyage_fields(content):
            _use_format_for_voyage(context)
        raise


def _use_format_for_voyage(context: RequestContext) -> None:
    context.error_format = context.error_format.for_voyage or context.error_format


def _body_type(endpoint: Callable[..., Any]) -> type[Body] | None:
    """Return the body type of an endpoint whose parameters are a context and a body, else None."""
    match [parameter.annotation for parameter in inspect.signature(endpoint).parameters.values()]:
        case [context, type() as body] if context == RequestDep and issubclass(body, Body):
            return body
    return None


def _with_all_fields(endpoint: Callable[..., Any]) -> Callable[..., Any]:
    """Return an endpoint for the OpenAPI document, whose body has all fields of the route."""
    body_type = _body_type(endpoint)
    if body_type is None or not body_type.wider:
        return endpoint

    @wraps(endpoint)
    def documented() -> None: ...

    signature = inspect.signature(endpoint)
    context, body = signature.parameters.values()
    parameters = [context, body.replace(annotation=body_type.widest())]
    documented.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return documented


def _is_without_input(endpoint: Callable[..., Any], options: Mapping[str, Any]) -> bool:
    """Return whether all that FastAPI would do for an endpoint is to call it and send JSON."""
    dependencies = {each.dependency for each in options.get("dependencies") or ()}
    plain = dependencies <= {request_context} and options.get("status_code") is None
    is_coroutine = inspect.iscoroutinefunction(endpoint)
    return plain and is_coroutine and not inspect.signature(endpoint).parameters


def _parse(body_type: type[B], content: bytes) -> B:
    check_json_parts(content)
    try:
        return body_type.parse(content)
    except ValidationError as error:
        if not content:
            raise BadRequest("the body is empty; send a JSON object") from None
        if not _is_utf8(content):
            message = (
                "the body is not UTF-8; send JSON in UTF-8, compressed only with content-encoding"
            )
            raise BadRequest(message) from None
        raise _invalid_body(error, body_type.widest()) from None


def _invalid_body(error: ValidationError, body_type: type[Body]) -> BadRequest:
    from embedwell.http.validation_errors import invalid_body  # for the first invalid body

    return invalid_body(error, body_type, body_type.input_fields)


def _is_utf8(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


async def receive_body(receive: Receive) -> bytes:
    message = await receive()
    first: bytes = message.get("body", b"")
    if not message.get("more_body", False):
        return first
    body = bytearray(first)
    while message.get("more_body", False):
        message = await receive()
        body += message.get("body", b"")
    return bytes(body)
