"""The outermost layer: request ids, keys, body size, and an account of every answer."""

import asyncio
import logging
from collections.abc import Awaitable, Collection, Mapping
from http import HTTPStatus

from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.errors import (
    Cut,
    Leaving,
    ServiceError,
    Unexpected,
)
from service.http.browser_checks import BrowserChecks
from service.http.error_responses import service_error
from service.http.failure_log import FailureLog
from service.http.headers import (
    JSON,
    Headers,
    check_coding,
    check_host,
    check_type,
    identify,
    joined,
)
from service.http.keys import Keys
from service.http.request_body import Bounds, DecompressedBody, RequestBody, too_large
from service.metrics import OTHER, Metrics
from service.process.gc_tuning import trim
from service.request.error_body import respond
from service.request.memory_budget import SMALL, Reservation
from service.request.request_context import RequestContext

_LARGE = 1 << 20  # bytes of a request; to trim the heap takes milliseconds after so much
_PIECE = 1 << 18  # bytes of a response that are sent at a time

log = logging.getLogger(__name__)

_OPEN = {"/", "/ping", "/live", "/ready", "/health", "/metrics", "/docs", "/openapi.json"}


class Middleware:
    """ASGI application around the whole server, which FastAPI's router is behind."""

    def __init__(  # noqa: PLR0913 - all but two by name
        self,
        app: ASGIApp,
        posts: Mapping[str, Route],
        *,
        root_path: str,
        paths: Collection[str] = (),
        bounds: Bounds,
        keys: Keys,
        metrics: Metrics,
        browsers: BrowserChecks,
    ) -> None:
        """posts: routes of `app` that are called directly, by their paths.

        root_path: the prefix that a gateway strips. paths: all those that `app` answers.
        """
        self._app, self._root_path = app, root_path
        self._posts, self._paths = posts, {*paths, *posts}
        self.bounds, self._keys, self._metrics, self._browsers = bounds, keys, metrics, browsers
        self._failures = FailureLog()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = joined(scope["headers"])
        path = scope["path"]
        if self._root_path:
            path = self._route_path(path)
            # As ASGI has it, for the routes of `app`.
            scope["path"], scope["root_path"] = self._root_path + path, self._root_path
        route = scope["route"] = self._posts.get(path)
        task, accept = asyncio.current_task(), headers.get(b"accept", b"")
        context = RequestContext(
            identify(headers), path, task, accept, memory=Reservation(self.bounds.budget)
        )
        scope.setdefault("state", {})["context"] = context
        incoming = RequestBody(receive, self.bounds, context)
        answered = _Answered(self._metrics, self._failures, scope, send)
        try:
            posted = scope["method"] == "POST"
            check_host(scope["headers"], headers, scope["http_version"])
            self._browsers.check(headers)
            self._check(path not in _OPEN or (posted and route is not None), headers, scope)
            app: ASGIApp = self._app
            if posted:
                check_type(headers.get(b"content-type", JSON))
                app = route.app if route else app
            await app(scope, self._plain(incoming, headers, context), answered)
        except (Exception, asyncio.CancelledError) as error:
            await answered.fail(error)
        finally:
            incoming.close()
            if context.memory.size > SMALL:
                _give_back(context.memory)

    def refuse(self, error: Cut, headers: Headers) -> Response:
        """What is told of what is no whole request."""
        context = RequestContext(identify(headers))
        self._metrics.observe(context, OTHER, error.status)
        answer = respond(error, context.id)
        answer.raw_headers += context.headers()
        return answer

    def _route_path(self, path: str) -> str:
        """A path without the prefix, which a client that asks past the gateway may send, too."""
        if path in self._paths or not path.startswith(f"{self._root_path}/"):
            return path
        return path.removeprefix(self._root_path)

    def _check(self, locked: bool, headers: Headers, scope: Scope) -> None:
        if locked:
            self._keys.check(headers)
        if b"transfer-encoding" in headers:
            check_coding(headers[b"transfer-encoding"], scope["http_version"])
        length = headers.get(b"content-length", b"0")
        if length.isdigit() and int(length) > self.bounds.size:
            raise too_large(self.bounds.size)

    def _plain(self, incoming: RequestBody, headers: Headers, context: RequestContext) -> Receive:
        encoding = headers.get(b"content-encoding")
        if encoding is None or encoding.strip().lower() == b"identity":
            return incoming
        return DecompressedBody(incoming, encoding, self.bounds.size, context.memory)


class _Answered:
    """Sends an answer with the call's headers, and counts it."""

    def __init__(self, metrics: Metrics, failures: FailureLog, scope: Scope, send: Send) -> None:
        self._metrics, self._failures, self._scope, self._send = metrics, failures, scope, send
        self._context: RequestContext = scope["state"]["context"]
        self._begun = False

    def __call__(self, message: Message) -> Awaitable[None]:
        if message["type"] == "http.response.start":
            self._begun = True
            message["headers"] = [*message["headers"], *self._context.headers()]
            path = getattr(self._scope["route"], "path", self._context.path)
            self._metrics.observe(self._context, path, message["status"])
        elif len(message.get("body", b"")) > _PIECE:
            return self._in_pieces(message)
        return self._send(message)

    async def _in_pieces(self, message: Message) -> None:
        """Send a large body as fast as the client reads it, so that its memory counts so long."""
        body, more = message["body"], message.get("more_body", False)
        for start in range(0, len(body), _PIECE):
            piece, end = body[start : start + _PIECE], start + _PIECE >= len(body)
            await self._send({**message, "body": piece, "more_body": more or not end})
            await asyncio.sleep(0)  # what was sent is written now, and a full buffer known

    async def fail(self, error: BaseException) -> None:
        """Answer with an error, if nothing has been answered."""
        found = _told(error, self._context)
        if found.status >= HTTPStatus.INTERNAL_SERVER_ERROR and not isinstance(found, Unexpected):
            self._failures.write(self._context.id, self._context.path, found.status, found.message)
        if not self._begun:
            answer = respond(found, self._context.id, self._context.path)
            head = {"status": answer.status_code, "headers": answer.raw_headers}
            await self({"type": "http.response.start", **head})
            await self({"type": "http.response.body", "body": answer.body})
        elif isinstance(error, asyncio.CancelledError) and self._context.fault is None:
            raise error  # the server stops; uvicorn ends the connection


def _give_back(memory: Reservation) -> None:
    large = memory.size > _LARGE
    memory.release()
    if large:
        trim()


def _told(error: BaseException, context: RequestContext) -> ServiceError:
    if context.fault is not None:
        return context.fault
    if isinstance(error, asyncio.CancelledError):
        return _leaving()
    found = service_error(error)
    if isinstance(found, Unexpected):
        log.error("request %s failed", context.id, exc_info=error)
    return found


def _leaving() -> ServiceError:
    error = Leaving("the server stops before it has an answer; ask again", retry=1)
    error.headers["connection"] = "close"
    return error
