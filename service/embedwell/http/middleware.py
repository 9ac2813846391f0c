"""ASGI middleware that adds request ids, keys, limits, errors and metrics to every request."""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Protocol

from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from embedwell.compute.activity import Activity
from embedwell.compute.request_limits import SMALL, Reservation
from embedwell.errors import (
    ClientDisconnected,
    ConnectionClosed,
    InternalError,
    ServiceError,
    ShuttingDown,
)
from embedwell.gc_tuning import FreeMemory
from embedwell.http.access import ApiKeys, BrowserChecks
from embedwell.http.error_responses import respond, to_service_error
from embedwell.http.failure_log import FailureLog, InvalidRequestLog
from embedwell.http.http_limits import (
    DecompressingReceive,
    HttpLimits,
    LimitedReceive,
    body_too_large_error,
)
from embedwell.http.request_context import (
    JSON,
    Headers,
    ModelPaths,
    RequestContext,
    check_content_type,
    check_single_host,
    check_transfer_encoding,
    merge_headers,
    request_id_of,
)
from embedwell.http.route_traits import RouteTraits, TraitsByPath

_LARGE = 1 << 20  # bytes; the heap is trimmed after a larger request, which takes milliseconds
_CHUNK = 1 << 18  # bytes of a response to send at a time
_SLASHES = re.compile("//+")

log = logging.getLogger(__name__)

_READING = frozenset({"GET", "HEAD"})  # methods that may need no key


class RequestCounter(Protocol):
    """Metrics of finished requests."""

    def observe(self, context: RequestContext, path: str, status: int) -> None:
        """Count a request with a response; a path of "" is that of a malformed request."""


class Middleware:
    """ASGI application that wraps FastAPI's."""

    def __init__(  # noqa: PLR0913 - all but two are keywords
        self,
        app: ASGIApp,
        direct_routes: Mapping[str, Route],
        traits: TraitsByPath,
        *,
        root_path: str,
        limits: HttpLimits,
        upload_limits: HttpLimits | None = None,
        keys: ApiKeys | None,
        metrics: RequestCounter,
        browsers: BrowserChecks,
        models: ModelPaths | None = None,
        check_load: Callable[[int], None] | None = None,
        on_end: Callable[[Scope, int], None] | None = None,
        activity: Activity | None = None,
    ) -> None:
        """direct_routes: routes of `app` for POST that are called directly, by path.

        traits: the traits of all routes of `app`.
        root_path: the prefix that a gateway strips.
        upload_limits: limits of routes that stream a body to the disk.
        keys: None for a server without a key.
        models: the models that a path may begin with.
        check_load: raises Overloaded if a request that computes would wait too long, by the bytes
            of its body, which has not been read.
        on_end: called after each request with its scope, and the status of its response.
        activity: counts the open requests that use the server; None if nothing reads it.
        """
        self._app, self._root_path = app, root_path
        self._direct_routes, self.traits = direct_routes, traits
        self.limits, self._upload_limits = limits, upload_limits or limits
        self._keys, self._metrics = keys, metrics
        self._browsers = None if browsers.allow_all else browsers
        self._failures, self.invalid_requests = FailureLog(), InvalidRequestLog()
        self._free_memory = FreeMemory()
        self._models, self._on_end = models or ModelPaths({}), on_end
        self._check_load, self._activity = check_load, activity

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = merge_headers(scope["headers"])
        path = scope["path"]
        if self._root_path:
            path = self._route_path(path)
            # The routes of `app` expect both in the form that ASGI defines.
            scope["path"], scope["root_path"] = self._root_path + path, self._root_path
        route = self._direct_routes.get(path)
        if route is None and (chosen := self._models.split(path)) is not None:
            index, rest = chosen
            scope["path"] = self._root_path + rest
            with self._models.chosen(index):
                await self(scope, receive, send)
            return
        if route is None and (path.endswith("/") or "//" in path):
            path = self._without_extra_slashes(path)
            scope["path"], route = self._root_path + path, self._direct_routes.get(path)
        scope["route"] = route
        traits = self.traits[path]
        limits = self._upload_limits if traits.uploads else self.limits
        context = _new_context(scope, headers, path, traits, limits)
        request_body = LimitedReceive(receive, limits, context)
        sender = _ResponseSender(self._metrics, self._failures, scope, send)
        only_observes = traits.is_monitoring and scope["method"] in _READING
        activity = None if only_observes else self._activity
        if activity is not None:
            activity.begin()
        try:
            app = self._checked_app(scope, headers, traits, limits.size)
            await app(scope, _decompressed(request_body, headers, limits, context), sender)
        except (Exception, asyncio.CancelledError) as error:
            await sender.fail(error)
        finally:
            request_body.stop_timer()
            if activity is not None:
                activity.end()
            if context.memory.size > SMALL:
                self._release(context.memory)
            if self._on_end is not None:
                self._on_end(scope, sender.status or ClientDisconnected.status)

    def refusal(self, error: ConnectionClosed, headers: Headers) -> Response:
        """Return the response for a request that the parser rejected, and count it."""
        context = RequestContext(request_id_of(headers))
        self._metrics.observe(context, context.path, error.status)
        response = respond(error, context.id)
        response.raw_headers += context.headers()
        return response

    def _route_path(self, path: str) -> str:
        """Return the path without the prefix, which clients that bypass the gateway also send."""
        if path in self.traits or not path.startswith(f"{self._root_path}/"):
            return path
        return path.removeprefix(self._root_path)

    def _without_extra_slashes(self, path: str) -> str:
        """Return the path as clients mean it whose base address ends with a slash."""
        return path if path in self.traits else _SLASHES.sub("/", path).rstrip("/") or "/"

    def _release(self, memory: Reservation) -> None:
        large = memory.size > _LARGE
        memory.release()
        if large:
            self._free_memory.return_soon()

    def _checked_app(
        self, scope: Scope, headers: Headers, traits: RouteTraits, max_size: int
    ) -> ASGIApp:
        """Return the application that responds to a request; raises ServiceError."""
        route, posted = scope["route"], scope["method"] == "POST"
        check_single_host(scope["headers"], headers, scope["http_version"])
        if self._browsers is not None:
            self._browsers.check(headers)
        if self._keys is not None and not (traits.without_key and scope["method"] in _READING):
            self._keys.check(headers)
        if b"transfer-encoding" in headers:
            check_transfer_encoding(headers[b"transfer-encoding"], scope["http_version"])
        length = headers.get(b"content-length", b"0")
        size = int(length) if length.isdigit() else 0
        if size > max_size:
            raise body_too_large_error(max_size)
        if not posted or traits.uploads:
            return self._app
        check_content_type(headers.get(b"content-type", JSON))
        is_plain = size and b"content-encoding" not in headers
        if self._check_load is not None and is_plain and traits.computes:
            self._check_load(size)
        return self._app if route is None else route.app


class _ResponseSender:
    """Sends a response with the headers of its context, and counts it.

    status: of the response; None until it starts.
    """

    status: int | None = None

    def __init__(
        self, metrics: RequestCounter, failures: FailureLog, scope: Scope, send: Send
    ) -> None:
        self._metrics, self._failures, self._scope, self._send = metrics, failures, scope, send
        self._context: RequestContext = scope["state"]["context"]

    def __call__(self, message: Message) -> Awaitable[None]:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = [*message["headers"], *self._context.headers()]
            path = getattr(self._scope["route"], "path", self._context.path)
            self._metrics.observe(self._context, path, message["status"])
        elif len(message.get("body", b"")) > _CHUNK:
            return self._in_chunks(message)
        return self._send(message)

    async def _in_chunks(self, message: Message) -> None:
        """Send a large body as fast as the client reads it, and count the unsent rest as memory."""
        body, more = message["body"], message.get("more_body", False)
        for start in range(0, len(body), _CHUNK):
            chunk, last = body[start : start + _CHUNK], start + _CHUNK >= len(body)
            await self._send({**message, "body": chunk, "more_body": more or not last})
            await asyncio.sleep(0)  # let the transport write the chunk and report a full buffer

    async def fail(self, error: BaseException) -> None:
        """Log an error, and send it unless a response has started."""
        failure = _service_error(error, self._context)
        status = failure.status
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR and not isinstance(failure, InternalError):
            self._failures.write(self._context.id, self._context.path, status, failure.message)
        if self.status is None:
            response = respond(
                failure, self._context.id, self._context.error_format, self._context.user_agent
            )
            head = {"status": response.status_code, "headers": response.raw_headers}
            await self({"type": "http.response.start", **head})
            await self({"type": "http.response.body", "body": response.body})
        elif isinstance(error, asyncio.CancelledError) and self._context.fault is None:
            raise error  # the server stops; uvicorn closes the connection


def _new_context(
    scope: Scope, headers: Headers, path: str, traits: RouteTraits, limits: HttpLimits
) -> RequestContext:
    context = RequestContext(
        request_id_of(headers),
        path,
        asyncio.current_task(),
        headers.get(b"accept", b""),
        error_format=traits.error_format,
        user_agent=headers.get(b"user-agent", b""),
        memory=Reservation(limits.budget),
    )
    state = scope.setdefault("state", {})
    if "has_hung_up" in state:  # uvicorn's connection is ours
        context.started, context.has_hung_up = state["started"], state["has_hung_up"]
    state["context"] = context
    return context


def _decompressed(
    body: LimitedReceive, headers: Headers, limits: HttpLimits, context: RequestContext
) -> Receive:
    encoding = headers.get(b"content-encoding")
    if encoding is None or encoding.strip().lower() == b"identity":
        return body
    return DecompressingReceive(body, encoding, limits.size, context.memory)


def _service_error(error: BaseException, context: RequestContext) -> ServiceError:
    if context.fault is not None:
        return context.fault
    if isinstance(error, asyncio.CancelledError):
        return _shutting_down()
    failure = to_service_error(error)
    if isinstance(failure, InternalError):
        fields = {"request_id": context.id, "path": context.path, "status": failure.status}
        log.error("request %s failed", context.id, exc_info=error, extra=fields)
    return failure


def _shutting_down() -> ServiceError:
    error = ShuttingDown(
        "the server is shutting down and cannot finish this request; try again", retry_after=1
    )
    error.headers["connection"] = "close"
    return error
