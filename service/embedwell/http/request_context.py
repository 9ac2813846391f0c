"""One HTTP request: its headers, and the state that its response describes.

Models have base addresses: below /m/NAME are all routes, for the model NAME.
"""

import asyncio
import random
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from embedwell.compute.request_limits import RequestCosts
from embedwell.errors import (
    BadRequest,
    ClientDisconnected,
    MalformedRequest,
    ServiceError,
    UnknownTransferEncoding,
    Unsupported,
)
from embedwell.http.error_responses import NATIVE, ErrorFormat

MODEL_PREFIX = "/m/"

model_in_path: ContextVar[int | None] = ContextVar("model_in_path", default=None)
"""Index of the model in the path of the current request; None without one."""


@dataclass(slots=True)
class RequestContext(RequestCosts):
    """State of one HTTP request, and its costs.

    Each field has one writer:

    - the middleware: id, path (without a gateway's prefix), task (computes the response), accept
      (the client's media types), user_agent (its header), error_format (that of its path) and
      memory; from the connection started (when the head arrived) and has_hung_up (whether the
      client has closed the connection);
    - the router: body_bytes, and error_format again if only Voyage's clients send such a body;
    - `abort`: fault, the client's error for which the task was cancelled.
    """

    id: str
    path: str = ""
    task: "asyncio.Task[Any] | None" = None
    accept: bytes = b""
    error_format: ErrorFormat = NATIVE
    user_agent: bytes = b""
    fault: ServiceError | None = None
    started: float = field(default_factory=time.perf_counter)
    has_hung_up: Callable[[], bool] = lambda: False

    def abort(self, fault: ServiceError) -> None:
        """Cancel the task because of a client's error."""
        self.fault = fault
        if self.task is not None:
            self.task.cancel()

    def check_connected(self) -> None:
        """Raise ClientDisconnected if the client has closed the connection."""
        if self.has_hung_up():
            raise ClientDisconnected("the client disconnected")

    @property
    def total_us(self) -> int:
        """Microseconds since the request started."""
        return round((time.perf_counter() - self.started) * 1e6)

    def headers(self) -> list[tuple[bytes, bytes]]:
        """Return the headers of every response, including TEI's, in milliseconds."""
        total_us = self.total_us
        return [
            (b"x-request-id", self.id.encode()),
            (b"x-tokens", b"%d" % self.tokens),
            (b"x-truncated", b"%d" % self.truncated),
            (b"x-cached", b"%d" % self.cached),
            (b"x-tokenize-us", b"%d" % self.tokenize_us),
            (b"x-queue-us", b"%d" % self.queue_us),
            (b"x-compute-us", b"%d" % self.compute_us),
            (b"x-total-us", b"%d" % total_us),
            (b"x-tokenization-time", b"%d" % (self.tokenize_us // 1000)),
            (b"x-queue-time", b"%d" % (self.queue_us // 1000)),
            (b"x-inference-time", b"%d" % (self.compute_us // 1000)),
            (b"x-total-time", b"%d" % (total_us // 1000)),
        ]


class ModelPaths:
    """Finds the model in a path."""

    def __init__(self, indices: Mapping[str, int]) -> None:
        """indices: the index of the model of each name."""
        # A longer name may begin with a shorter one and a slash.
        self._indices = sorted(indices.items(), key=lambda item: -len(item[0]))

    def split(self, path: str) -> tuple[int, str] | None:
        """Return the index of the model and the rest of a path.

        Return None without a known model, and for the rest of a path whose model is chosen.
        """
        rest = path.removeprefix(MODEL_PREFIX)
        if rest == path or model_in_path.get() is not None:
            return None
        for name, index in self._indices:
            if rest == name or rest.startswith(f"{name}/"):
                return index, rest.removeprefix(name) or "/"
        return None

    @contextmanager
    def chosen(self, index: int) -> Iterator[None]:
        """Set `model_in_path` in a block."""
        token = model_in_path.set(index)
        try:
            yield
        finally:
            model_in_path.reset(token)


JSON = b"application/json"

_ID = re.compile(rb"[\w.:/+=@-]{1,128}", re.ASCII)
_TRACE = re.compile(rb"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")
_TYPES = {JSON, b"application/x-www-form-urlencoded", b"text/plain", b""}

_LISTS = {b"accept", b"content-encoding", b"transfer-encoding"}

Headers = Mapping[bytes, bytes]


def merge_headers(lines: Sequence[tuple[bytes, bytes]]) -> Headers:
    """Join the lines of list headers; other repeated headers keep their last value.

    https://www.rfc-editor.org/rfc/rfc9110#section-5.3
    """
    headers = dict(lines)
    if len(headers) < len(lines):
        for repeated in _LISTS & headers.keys():
            headers[repeated] = b", ".join(value for name, value in lines if name == repeated)
    return headers


def check_single_host(lines: Sequence[tuple[bytes, bytes]], headers: Headers, version: str) -> None:
    """Raise BadRequest unless there is exactly one Host header.

    With several, a gateway might read another one than this server.

    https://www.rfc-editor.org/rfc/rfc9112#section-3.2
    """
    if b"host" not in headers:
        if version == "1.1":
            raise BadRequest("an HTTP/1.1 request needs the header Host")
    elif len(headers) < len(lines) and [name for name, _ in lines].count(b"host") > 1:
        raise BadRequest("the request has several Host headers; send exactly one")


def check_transfer_encoding(codings: bytes, version: str) -> None:
    """Raise UnknownTransferEncoding for any transfer encoding but chunked.

    Raises MalformedRequest in HTTP/1.0, which has no transfer encodings. The parser itself rejects
    a list of encodings that does not end in chunked, because the end of such a body is unknown.
    https://www.rfc-editor.org/rfc/rfc9112#section-6.1
    """
    if version == "1.0":
        raise MalformedRequest("HTTP/1.0 has no Transfer-Encoding; send Content-Length instead")
    first, _, last = codings.rpartition(b",")
    if first and last.strip().lower() == b"chunked":
        raise UnknownTransferEncoding(
            f"transfer-encoding {first.decode('latin-1')!r} is not supported; send chunked or "
            "Content-Length"
        )


def check_content_type(media: bytes) -> None:
    """Raise Unsupported for a body whose type is not JSON in UTF-8.

    The form type that curl declares by default is accepted, and the plain text of other clients.
    """
    if media == JSON:
        return
    kind, *rest = media.lower().replace(b" ", b"").split(b";")
    parameters = dict(parameter.partition(b"=")[::2] for parameter in rest)
    charset = parameters.get(b"charset", b"").strip(b'"') or b"utf-8"
    if (kind in _TYPES or kind.endswith(b"+json")) and charset in (b"utf-8", b"utf8", b"us-ascii"):
        return
    raise Unsupported(
        f"content-type {media.decode('latin-1')!r} is not supported; send application/json in "
        "UTF-8",
        code="unsupported_type",
        header="accept",
        supported="application/json",
    )


def request_id_of(headers: Headers) -> str:
    """Return the client's request id, else the trace id of its traceparent, else a new id.

    https://www.w3.org/TR/trace-context/#traceparent-header
    """
    request_id = headers.get(b"x-request-id")
    if request_id is not None and _ID.fullmatch(request_id):
        return request_id.decode()
    trace = b"traceparent" in headers and _TRACE.fullmatch(headers[b"traceparent"])
    return trace.group(1).decode() if trace else f"{random.getrandbits(128):032x}"
