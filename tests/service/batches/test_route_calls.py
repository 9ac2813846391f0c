"""A route responds to a batch as it does over HTTP."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from embedwell.batches.route_calls import RouteCalls, RouteResponse
from embedwell.errors import EngineCrash, EngineUnavailable, Overloaded, TimedOut
from embedwell.limits.memory_budget import MemoryBudget, Reservation
from embedwell.routes.common.body import Body
from embedwell.routes.common.response_body import BinaryResponse
from embedwell.routes.common.router import RequestDep, api_router, direct_routes


class Text(Body):
    text: str


def call(body: bytes, results: Sequence[Any], budget: MemoryBudget | None = None) -> RouteResponse:
    """The response to a body of a route that returns or raises each of the results in turn."""
    routes, remaining = api_router("similarity"), list(results)

    @routes.post("/v1/texts")
    async def texts(context: RequestDep, body: Text) -> Any:
        result = remaining.pop(0)
        if isinstance(result, Exception):
            raise result
        context.memory.grow(1 << 20)
        return result

    budget = budget or MemoryBudget()
    calls = RouteCalls(direct_routes(routes.routes), budget)
    assert calls.paths == ["/v1/texts"]
    response = asyncio.run(calls.post("/v1/texts", body, Reservation(budget)))
    assert not remaining
    return response


def test_a_success_has_the_body_of_the_route() -> None:
    budget = MemoryBudget()
    response = call(b'{"text": "a"}', [{"length": 1}], budget)
    assert (response.status, json.loads(response.body)) == (200, {"length": 1})
    assert response.request_id.startswith("batch_req_")
    assert budget.reserved > 1 << 20, "the caller releases it once the response is written"


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (EngineCrash("the engine dies"), 500, "engine_crash"),
        (TimedOut("too long"), 504, "timeout"),
        (RuntimeError("secret"), 500, "internal_error"),
    ],
)
def test_an_error_has_the_body_that_clients_receive(
    error: Exception, status: int, code: str
) -> None:
    response = call(b'{"text": "a"}', [error])
    described = json.loads(response.body)["error"]
    assert (response.status, described["code"]) == (status, code)
    assert described["request_id"] == response.request_id
    assert b"secret" not in response.body


def test_an_invalid_body_is_an_error_of_its_request() -> None:
    response = call(b'{"texts": "a"}', [])
    assert response.status == 400
    assert json.loads(response.body)["error"]["message"].startswith("unknown field 'texts'")


@pytest.mark.parametrize("error", [Overloaded("full"), EngineUnavailable("no", retry_after=3)])
def test_a_request_that_is_refused_for_a_while_has_no_response(error: Exception) -> None:
    with pytest.raises(type(error)) as caught:
        call(b'{"text": "a"}', [error])
    assert caught.value is error


def test_a_large_body_takes_memory_of_the_budget() -> None:
    budget = MemoryBudget(1 << 20)
    other = Reservation(budget)
    other.grow(1 << 19)
    with pytest.raises(Overloaded):
        call(b'{"text": "%s"}' % (b"a" * (1 << 19)), [], budget)


def test_a_response_that_is_not_json_is_an_error() -> None:
    response = call(b'{"text": "a"}', [BinaryResponse(b"application/x-npy", b"123", [])])
    assert response.status == 400 and b"JSON only" in response.body
