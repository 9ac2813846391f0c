"""The outermost layer: request ids, keys, body size, and an account of every answer."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api.operation import Operation
from service.call import Call
from service.error_body import plain, respond
from service.errors import (
    Cut,
    Leaving,
    ServiceError,
    Unexpected,
)
from service.heap import trim
from service.http.explanation import service_error
from service.http.headers import JSON, Headers, check_coding, check_type, identify, joined
from service.http.incoming import Bounds, Incoming, Inflated, too_large
from service.http.keys import Keys
from service.metrics import OTHER, Metrics

_LARGE = 1 << 20  # bytes of a body; to trim the heap takes milliseconds after so much

log = logging.getLogger(__name__)

_OPEN = {"/", "/ping", "/live", "/ready", "/health", "/metrics", "/docs", "/openapi.json"}


class Edge:
    """ASGI application around the whole server: goes straight to an operation, else to `app`."""

    def __init__(  # noqa: PLR0913 - all but two by name
        self,
        app: ASGIApp,
        operations: Sequence[Operation[Any]],
        *,
        root_path: str,
        bounds: Bounds,
        keys: Keys,
        metrics: Metrics,
    ) -> None:
        """root_path: a prefix of paths that is ignored."""
        self._app, self._root_path = app, root_path
        self._posts = {path: operation for operation in operations for path in operation.paths}
        self._bounds, self._keys, self._metrics = bounds, keys, metrics
        self.patience = bounds.patience

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = joined(scope["headers"])
        path = scope["path"].removeprefix(self._root_path)
        operation = scope["route"] = self._posts.get(path)
        call = Call(identify(headers), asyncio.current_task(), headers.get(b"accept", b""))
        scope.setdefault("state", {})["call"] = call
        incoming = Incoming(receive, self._bounds, call)
        answered = _Answered(self._metrics, scope, path, send)
        try:
            posted = scope["method"] == "POST"
            self._check(path not in _OPEN or (posted and operation is not None), headers)
            app: ASGIApp = self._app
            if posted:
                check_type(headers.get(b"content-type", JSON))
                app = operation or app
            await app(scope, self._plain(incoming, headers), answered)
        except (Exception, asyncio.CancelledError) as error:
            await answered.fail(error)
        finally:
            incoming.close()
            if call.size > _LARGE:
                trim()

    def refuse(self, error: Cut, headers: Headers) -> Response:
        """What is told of what is no whole request."""
        call = Call(identify(headers))
        self._metrics.observe(call, OTHER, error.status)
        answer = respond(error, call.id)
        answer.raw_headers += call.headers()
        return answer

    def _check(self, locked: bool, headers: Headers) -> None:
        if locked:
            self._keys.check(headers)
        if b"transfer-encoding" in headers:
            check_coding(headers[b"transfer-encoding"])
        length = headers.get(b"content-length", b"0")
        if length.isdigit() and int(length) > self._bounds.size:
            raise too_large(self._bounds.size)

    def _plain(self, incoming: Incoming, headers: Headers) -> Receive:
        encoding = headers.get(b"content-encoding")
        if encoding is None or encoding.strip().lower() == b"identity":
            return incoming
        return Inflated(incoming, encoding, self._bounds.size)


class _Answered:
    """Sends an answer with the call's headers, and counts it."""

    def __init__(self, metrics: Metrics, scope: Scope, path: str, send: Send) -> None:
        self._metrics, self._scope, self._path, self._send = metrics, scope, path, send
        self._call: Call = scope["state"]["call"]
        self._begun = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._begun = True
            message["headers"] = [*message["headers"], *self._call.headers()]
            path = getattr(self._scope["route"], "path", self._path)
            self._metrics.observe(self._call, path, message["status"])
        await self._send(message)

    async def fail(self, error: BaseException) -> None:
        """Answer with an error, if nothing has been answered."""
        found = _told(error, self._call)
        if not self._begun:
            envelope = getattr(self._scope["route"], "envelope", plain)
            answer = respond(found, self._call.id, envelope)
            head = {"status": answer.status_code, "headers": answer.raw_headers}
            await self({"type": "http.response.start", **head})
            await self({"type": "http.response.body", "body": answer.body})
        elif isinstance(error, asyncio.CancelledError) and self._call.fault is None:
            raise error  # the server stops; uvicorn ends the connection


def _told(error: BaseException, call: Call) -> ServiceError:
    if call.fault is not None:
        return call.fault
    if isinstance(error, asyncio.CancelledError):
        return _leaving()
    found = service_error(error)
    if isinstance(found, Unexpected):
        log.error("request %s failed", call.id, exc_info=error)
    return found


def _leaving() -> ServiceError:
    error = Leaving("the server stops before it has an answer; ask again", retry=1)
    error.headers["connection"] = "close"
    return error
