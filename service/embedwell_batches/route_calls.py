"""Call the routes of this server without HTTP, with one request of a batch or several."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus

from starlette.types import Message, Scope

from embedwell.compute.request_limits import MemoryBudget, Reservation
from embedwell.errors import BadRequest, InternalError, Overloaded, ServiceError
from embedwell.http.error_responses import respond, to_service_error
from embedwell.http.request_context import RequestContext
from embedwell.routes.common.router import DirectRoute
from embedwell_batches.folder import REQUEST_PREFIX, new_id
from embedwell_batches.json_lines import RequestLine
from embedwell_models.encoder.device import return_free_memory

TEMPORARY = {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE}
"""Statuses of a request that is sent again later."""
_BODY_COPIES = 2  # copies of a body in memory: read from the file, and parsed
_JSON = (b"content-type", b"application/json")

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RouteResponse:
    """The response to a request of a batch.

    body: the body as JSON.
    """

    request_id: str
    status: int
    body: bytes


class RouteCalls:
    """Calls routes with a body, without any other part of an HTTP request."""

    def __init__(self, routes: Mapping[str, DirectRoute], budget: MemoryBudget) -> None:
        """routes: routes by path.

        budget: memory for large requests, shared with clients.
        """
        self._routes, self.budget = routes, budget

    @property
    def paths(self) -> list[str]:
        """Paths that the requests of a batch can name."""
        return [*self._routes]

    async def post(self, path: str, body: bytes, memory: Reservation) -> RouteResponse:
        """Call a route with a body; the caller releases the memory of both.

        Raises ServiceError if the server rejects the request temporarily.
        """
        error_format = self._routes[path].traits.error_format
        context = RequestContext(
            new_id(REQUEST_PREFIX), path, error_format=error_format, memory=memory
        )
        try:
            memory.grow(_BODY_COPIES * len(body))
            return RouteResponse(context.id, 200, await self._call(context, body))
        except Exception as error:
            failure = to_service_error(error)
            if isinstance(failure, InternalError):
                log.error("request %s of a batch failed", context.id, exc_info=error)
        if failure.status in TEMPORARY:
            raise failure
        response = respond(failure, context.id, error_format)
        return RouteResponse(context.id, failure.status, bytes(response.body))

    async def _call(self, context: RequestContext, body: bytes) -> bytes:
        scope: Scope = {"type": "http", "method": "POST", "state": {"context": context}}
        sent: list[Message] = []

        async def receive() -> Message:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Message) -> None:
            sent.append(message)

        await self._routes[context.path].app(scope, receive, send)
        head, *parts = sent
        if _JSON not in head["headers"]:
            raise BadRequest(
                "a batch returns JSON only; leave out options that need a binary response"
            )
        return b"".join(part["body"] for part in parts)


_TOGETHER_BYTES = 32 << 20  # memory for the requests that are computed at once

Result = tuple[RequestLine, RouteResponse]
Record = Callable[[Sequence[Result]], Awaitable[None]]


async def compute_group(
    calls: RouteCalls, path: str, requests: Sequence[RequestLine], record: Record
) -> None:
    """Compute requests and record the results in their order.

    Requests that need little memory are computed at once. Each of the others is computed alone, and
    recorded before its memory is released.
    Raises ServiceError if the server rejects a request temporarily; the results of those before it
    are recorded.
    """
    together = MemoryBudget(_TOGETHER_BYTES, strict=True)
    attempts = await asyncio.gather(
        *(_attempt(calls, path, line, Reservation(together)) for line in requests)
    )
    done: list[Result] = []
    for line, attempt in zip(requests, attempts, strict=True):
        if isinstance(attempt, RouteResponse):
            done.append((line, attempt))
            continue
        await _record_all(done, record)
        if not isinstance(attempt, Overloaded):
            raise attempt
        await _compute_alone(calls, path, line, record)
    await _record_all(done, record)


async def _attempt(
    calls: RouteCalls, path: str, line: RequestLine, memory: Reservation
) -> RouteResponse | ServiceError:
    try:
        return await calls.post(path, line.body, memory)
    except ServiceError as error:
        return error


async def _record_all(results: list[Result], record: Record) -> None:
    if results:
        await record(results)
        results.clear()


async def _compute_alone(calls: RouteCalls, path: str, line: RequestLine, record: Record) -> None:
    memory = Reservation(calls.budget)
    try:
        await record([(line, await calls.post(path, line.body, memory))])
    finally:
        memory.release()
        return_free_memory()
