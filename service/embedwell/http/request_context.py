"""State of one HTTP request: the headers that describe its response, and the model in its path.

Models have base addresses: below /m/NAME are all routes, for the model NAME.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from embedwell.compute.request_costs import RequestCosts
from embedwell.errors import ClientDisconnected, ServiceError
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
