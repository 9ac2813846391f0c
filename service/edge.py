"""The outermost layer: request ids, keys, body size, and an account of every answer."""

import asyncio
import hmac
import logging
import random
import re
from collections.abc import Mapping

from starlette.types import Message, Receive, Scope, Send

from service.api.operation import Shortcut
from service.call import Call
from service.errors import (
    Leaving,
    ServiceError,
    Unauthorized,
    Unexpected,
    Unsupported,
    respond,
    told,
)
from service.heap import trim
from service.incoming import Bounds, Incoming, Inflated, too_large
from service.metrics import OTHER, Metrics

JSON = b"application/json"

_LARGE = 1 << 20  # bytes of a body; to trim the heap takes milliseconds after so much

log = logging.getLogger(__name__)

_OPEN = {"/live", "/ready", "/health", "/metrics", "/docs", "/openapi.json"}
_ID = re.compile(rb"[\w.:/+=@-]{1,128}", re.ASCII)
_TRACE = re.compile(rb"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")
_TYPES = {JSON, b"application/x-www-form-urlencoded", b"text/plain", b""}

Headers = Mapping[bytes, bytes]


class Edge:
    """ASGI application around the whole server."""

    def __init__(
        self,
        app: Shortcut,
        *,
        root_path: str,
        bounds: Bounds,
        key: str | None,
        metrics: Metrics,
    ) -> None:
        """root_path: a prefix of paths that is ignored."""
        self._app, self._root_path = app, root_path
        self._bounds, self._metrics = bounds, metrics
        self.patience = bounds.patience
        self._key = None if key is None else key.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        accept = headers.get(b"accept", b"")
        call = Call(identify(headers), asyncio.current_task(), accept)
        scope.setdefault("state", {})["call"] = call
        answered = _Answered(self._metrics, scope, call, send)
        incoming = Incoming(receive, self._bounds, call)
        try:
            self._check(scope["path"].removeprefix(self._root_path), headers)
            if scope["method"] == "POST":
                check_type(headers.get(b"content-type", JSON))
            await self._app(scope, self._plain(incoming, headers), answered)
        except (Exception, asyncio.CancelledError) as error:
            found = _told(error, call)
            if not answered.begun:
                envelope = self._app.envelope(scope["path"])
                await respond(found, call.id, envelope)(scope, receive, answered)
            elif isinstance(error, asyncio.CancelledError) and call.fault is None:
                raise  # the server stops; uvicorn ends the connection
        finally:
            incoming.close()
            if call.size > _LARGE:
                trim()

    def _check(self, path: str, headers: Headers) -> None:
        if self._key is not None and path not in _OPEN:
            scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
            # Its case does not matter: https://www.rfc-editor.org/rfc/rfc9110#section-11.1
            if scheme.lower() != b"bearer" or not hmac.compare_digest(given.strip(), self._key):
                raise Unauthorized("give the API key as 'Authorization: Bearer KEY'")
        length = headers.get(b"content-length", b"0")
        if length.isdigit() and int(length) > self._bounds.size:
            raise too_large(self._bounds.size)

    def _plain(self, incoming: Incoming, headers: Headers) -> Receive:
        encoding = headers.get(b"content-encoding", b"identity")
        if encoding.strip().lower() == b"identity":
            return incoming
        return Inflated(incoming, encoding, self._bounds.size)


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
            path = getattr(route, "path", OTHER)
            self._metrics.observe(self._call, path, message["status"])
        await self._send(message)


def check_type(media: bytes) -> None:
    """Raises Unsupported for a body that says it is something else than JSON in UTF-8.

    curl calls what it sends a form unless told otherwise, and other clients plain text.
    """
    if media == JSON:
        return
    kind, *rest = media.lower().replace(b" ", b"").split(b";")
    parameters = dict(each.partition(b"=")[::2] for each in rest)
    charset = parameters.get(b"charset", b"").strip(b'"') or b"utf-8"
    if (kind in _TYPES or kind.endswith(b"+json")) and charset in (b"utf-8", b"utf8", b"us-ascii"):
        return
    raise Unsupported(
        f"a body of type {media.decode('latin-1')!r} is not read; send application/json in UTF-8",
        code="unsupported_type",
        header="accept",
        supported="application/json",
    )


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
    if call.fault is not None:
        return call.fault
    if isinstance(error, asyncio.CancelledError):
        return _leaving()
    found = told(error)
    if isinstance(found, Unexpected):
        log.error("request %s failed", call.id, exc_info=error)
    return found


def _leaving() -> ServiceError:
    error = Leaving("the server stops before it has an answer; ask again", retry=1)
    error.headers["connection"] = "close"
    return error
