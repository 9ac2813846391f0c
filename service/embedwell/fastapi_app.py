"""Build FastAPI's application: routes, error responses, OpenAPI document, background work."""

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from difflib import get_close_matches
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Match, Route

from embedwell import __version__
from embedwell.errors import BadRequest, NotFound, ServiceError, WrongMethod
from embedwell.http.error_responses import respond, to_service_error
from embedwell.http.request_context import RequestContext
from embedwell.routes.common.openapi_responses import OpenAPIObject
from embedwell.routes.common.router import head_routes

_DESCRIPTION = "Vectors of texts, images and tokens, similarity, reranking, and position encodings."

Background = Callable[[], Coroutine[Any, Any, None]]


def fastapi_app(routers: Sequence[APIRouter], background: Sequence[Background] = ()) -> FastAPI:
    """Build FastAPI's application.

    routers: their lifespans begin after the background work, and end before it.
    background: work that runs as long as the application, and is cancelled in reverse order.
    """
    app = FastAPI(
        title="embedwell",
        version=__version__,
        description=_DESCRIPTION,
        lifespan=_lifespan(routers, background),
        openapi_url=None,  # a router of doors.ROUTES serves it
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,  # the address that clients use may be a gateway's
    )
    for router in routers:  # a flat list, from which errors name the routes
        app.router.routes.extend(router.routes)
        app.router.routes.extend(head_routes(router.routes))
    add_exception_handlers(app)
    app.openapi = functools.cache(functools.partial(_document, app))  # type: ignore[method-assign]
    return app


def _document(app: FastAPI) -> OpenAPIObject:
    from embedwell.routes.openapi_document import openapi_document  # most servers need it never

    return openapi_document(app)


def _lifespan(
    routers: Sequence[APIRouter], background: Sequence[Background]
) -> Callable[[FastAPI], contextlib.AbstractAsyncContextManager[None]]:
    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        running = [asyncio.create_task(run()) for run in background]
        async with contextlib.AsyncExitStack() as stack:
            for router in routers:
                await stack.enter_async_context(router.lifespan_context(app))
            yield
        for task in reversed(running):  # later tasks may need earlier ones
            task.cancel()
            await asyncio.wait([task])

    return lifespan


_COMPARED = 100  # characters of an unknown path in the message
_SIMILARITY = 0.78  # of a misspelling, by difflib
_VERSION = "/v1"  # of some routes, and of base URLs
_ALL_ROUTES = "GET /openapi.json lists all routes"
_OF_A_CHAT = ("/chat", "/completions", "/generate", "/responses")  # the ends of paths


def add_exception_handlers(app: FastAPI) -> None:
    """Respond to every exception in the error format of its path.

    FastAPI raises an unexpected exception again, and the middleware logs it.
    """
    for kind in (ServiceError, ValidationError, RequestValidationError, Exception):
        app.add_exception_handler(kind, _respond)
    app.add_exception_handler(HTTPException, _http)


async def _respond(request: Request, error: Exception) -> Response:
    context: RequestContext = request.state.context
    return respond(to_service_error(error), context.id, context.error_format, context.user_agent)


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    kinds: dict[int, Callable[[Request], ServiceError]] = {404: _not_found, 405: _wrong_method}
    if error.status_code in kinds:
        return await _respond(request, kinds[error.status_code](request))
    kind = BadRequest if error.status_code < 500 else ServiceError
    wrapped = kind(str(error.detail))
    wrapped.status = error.status_code
    return await _respond(request, wrapped)


def _not_found(request: Request) -> NotFound:
    methods: dict[str, set[str]] = {}
    for route, method in _methods(request.app.routes):
        if method != "HEAD":
            methods.setdefault(route.path_format, set()).add(method)
    path = request.url.path
    if path.endswith(_OF_A_CHAT):
        reason = "this server does not generate text"
        return NotFound(f"there is no route {path}: {reason}; {_ALL_ROUTES}")
    versions = [name for name in (path.removeprefix(_VERSION), _VERSION + path) if name in methods]
    similar = get_close_matches(path[:_COMPARED], methods, n=3, cutoff=_SIMILARITY)
    similar = [*versions, *(name for name in similar if name not in versions)][:3]
    names = [f"{method} {match}" for match in similar for method in sorted(methods[match])]
    question = f"did you mean {', '.join(names)}? " if names else ""
    return NotFound(f"there is no route {path}; {question}{_ALL_ROUTES}")


def _wrong_method(request: Request) -> WrongMethod:
    routes: list[BaseRoute] = request.app.routes
    matching = [route for route in routes if route.matches(request.scope)[0] is not Match.NONE]
    allowed = ", ".join(sorted({method for _, method in _methods(matching)}))
    return WrongMethod(
        f"{request.url.path} does not accept {request.method}; use {allowed}", allowed
    )


def _methods(routes: Sequence[BaseRoute]) -> Iterator[tuple[Route, str]]:
    for route in routes:
        if isinstance(route, Route):
            yield from ((route, method) for method in route.methods or ())
