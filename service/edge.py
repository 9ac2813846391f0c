"""The outermost layer: request ids, keys, body size, and an account of every answer."""

import asyncio
import hmac
import logging
import random
import re
from collections.abc import Mapping

from pydantic import ValidationError
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.call import Call
from service.errors import HungUp, ServiceError, TooLarge, Unauthorized, explain, respond
from service.metrics import Metrics

log = logging.getLogger(__name__)

_OPEN = {"/live", "/ready", "/health", "/metrics", "/docs", "/openapi.json"}
_ID = re.compile(rb"[\w.:/+=@-]{1,128}", re.ASCII)
_TRACE = re.compile(rb"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")

Headers = Mapping[bytes, bytes]


class Edge:
    """ASGI application around the whole server."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        root_path: str,
        max_body: int,
        key: str | None,
        metrics: Metrics,
    ) -> None:
        """root_path: a prefix of paths that is ignored."""
        self._app, self._root_path = app, root_path
        self._max_body, self._metrics = max_body, metrics
        self._credential = None if key is None else f"Bearer {key}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        accept = headers.get(b"accept", b"")
        call = Call(identify(headers), asyncio.current_task(), accept)
        scope.setdefault("state", {})["call"] = call
        answered = _Answered(self._metrics, scope, call, send)
        try:
            self._check(scope["path"].removeprefix(self._root_path), headers)
            await self._app(scope, _Limited(receive, self._max_body), answered)
        except (Exception, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and not call.hung_up:
                raise  # the server stops
            if not answered.begun:
                await respond(_told(error, call), call.id)(scope, receive, answered)

    def _check(self, path: str, headers: Headers) -> None:
        if self._credential is not None and path not in _OPEN:
            given = headers.get(b"authorization", b"")
            if not hmac.compare_digest(given, self._credential):
                raise Unauthorized("give the API key as 'Authorization: Bearer KEY'")
        length = headers.get(b"content-length", b"0")
        if length.isdigit() and int(length) > self._max_body:
            raise _too_large(self._max_body)


class _Limited:
    """Receives a body, refusing what is beyond the limit though no length was announced."""

    def __init__(self, receive: Receive, most: int) -> None:
        self._receive, self._left, self._most = receive, most, most

    async def __call__(self) -> Message:
        message = await self._receive()
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            raise _too_large(self._most)
        return message


class _Answered:
    """Sends an answer with the call's headers, and counts it."""

    def __init__(self, metrics: Metrics, scope: Scope, call: Call, send: Send) -> None:
        self._metrics, self._scope, self._call, self._send = metrics, scope, call, send
        self.begun = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.begun = True
            message["headers"] = [*message["headers"], *self._call.headers()]
            route = self._scope.get("route")
            path = getattr(route, "path", "other")
            self._metrics.observe(self._call, path, message["status"])
        await self._send(message)


def identify(headers: Headers) -> str:
    """The client's request id, else the trace id of its traceparent, else a new one.

    https://www.w3.org/TR/trace-context/#traceparent-header
    """
    given = headers.get(b"x-request-id")
    if given is not None and _ID.fullmatch(given):
        return given.decode()
    trace = _TRACE.fullmatch(headers.get(b"traceparent", b""))
    return trace.group(1).decode() if trace else f"{random.getrandbits(128):032x}"


def _told(error: BaseException, call: Call) -> ServiceError:
    """What the client is told of an error; it is not told what nobody expected."""
    if call.hung_up:
        return HungUp("the client has hung up")
    if isinstance(error, ServiceError):
        return error
    if isinstance(error, ValidationError):
        return explain(error)
    log.error("request %s failed", call.id, exc_info=error)
    return ServiceError("an unexpected error; see the server's log")


def _too_large(most: int) -> TooLarge:
    return TooLarge(f"the body has more than {most} bytes", code="body_too_large")
