"""Call the routes of this server without HTTP."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus

from starlette.routing import Route
from starlette.types import Message, Scope

from embedwell.batches.ids import REQUEST, new_id
from embedwell.errors import BadRequest, InternalError, ServiceError
from embedwell.http.error_body import respond
from embedwell.http.error_responses import to_service_error
from embedwell.http.request_context import RequestContext
from embedwell.limits.memory_budget import MemoryBudget, Reservation

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

    def __init__(self, routes: Mapping[str, Route], budget: MemoryBudget) -> None:
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
        context = RequestContext(new_id(REQUEST), path, memory=memory)
        try:
            memory.grow(_BODY_COPIES * len(body))
            return RouteResponse(context.id, 200, await self._call(context, body))
        except Exception as error:
            failure = self._failure(error, context)
        if failure.status in TEMPORARY:
            raise failure
        response = respond(failure, context.id, path)
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

    def _failure(self, error: Exception, context: RequestContext) -> ServiceError:
        failure = to_service_error(error)
        if isinstance(failure, InternalError):
            log.error("request %s of a batch failed", context.id, exc_info=error)
        return failure
