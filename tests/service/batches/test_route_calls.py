"""A route responds to a batch as it does over HTTP."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from embedwell.compute.request_limits import MemoryBudget, Reservation
from embedwell.errors import EngineCrash, EngineUnavailable, Overloaded, TimedOut
from embedwell.http.error_responses import OPENAI
from embedwell.routes.common.body import Body
from embedwell.routes.common.response_body import BinaryResponse
from embedwell.routes.common.router import RequestDep, api_router, direct_routes
from embedwell_batches.json_lines import RequestLine
from embedwell_batches.route_calls import Result, RouteCalls, RouteResponse, compute_group


class Text(Body):
    text: str


def call(body: bytes, results: Sequence[Any], budget: MemoryBudget | None = None) -> RouteResponse:
    """The response to a body of a route that returns or raises each of the results in turn."""
    routes, remaining = api_router("similarity", error_format=OPENAI), list(results)

    @routes.post("/v1/texts")
    async def texts(context: RequestDep, body: Text) -> Any:
        result = remaining.pop(0)
        if isinstance(result, Exception):
            raise result
        context.memory.grow(1 << 20)
        return result

    budget = budget or MemoryBudget()
    calls = RouteCalls(direct_routes(routes), budget)
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


MB = 1 << 20


class Size(Body):
    megabytes: int


class Group:
    """Requests for a route that needs so much memory, and what is observed of them.

    computing: requests that are being computed at once. reserved: MB of the budget at each record.
    """

    def __init__(self, limit: int, unavailable: Sequence[int] = ()) -> None:
        self.budget, self._unavailable = MemoryBudget(limit * MB), unavailable
        self.started, self.computing, self.most_computing = 0, 0, 0
        self.recorded: list[int] = []
        self.reserved: list[int] = []
        routes = api_router("similarity")

        @routes.post("/sizes")
        async def sizes(context: RequestDep, body: Size) -> Any:
            return await self._compute(context, body.megabytes)

        self._calls = RouteCalls(direct_routes(routes), self.budget)

    async def _compute(self, context: Any, megabytes: int) -> Any:
        self.started += 1
        if megabytes in self._unavailable:
            raise EngineUnavailable("loading")
        context.memory.grow(megabytes * MB)
        self.computing += 1
        self.most_computing = max(self.most_computing, self.computing)
        await asyncio.sleep(0.01)
        self.computing -= 1
        return {"megabytes": megabytes}

    def run(self, sizes: Sequence[int]) -> list[int]:
        lines = [
            RequestLine(f"{i}", "/sizes", json.dumps({"megabytes": size}).encode(), i)
            for i, size in enumerate(sizes)
        ]
        asyncio.run(compute_group(self._calls, "/sizes", lines, self._record))
        return self.recorded

    async def _record(self, results: Sequence[Result]) -> None:
        self.reserved.append(self.budget.reserved // MB)
        self.recorded += [json.loads(response.body)["megabytes"] for _, response in results]


def test_small_requests_are_computed_together_and_recorded_at_once() -> None:
    group = Group(limit=100)
    assert group.run([0] * 50 + [1]) == [0] * 50 + [1]
    assert (group.most_computing, group.reserved) == (51, [0])


def test_large_requests_are_computed_and_recorded_one_by_one_in_order() -> None:
    group = Group(limit=100)
    assert group.run([0, 50, 60, 1, 70, 0]) == [0, 50, 60, 1, 70, 0]
    assert group.most_computing == 3  # the small ones
    assert group.reserved == [0, 50, 60, 0, 70, 0]
    assert group.budget.reserved == 0


def test_requests_that_are_small_alone_do_not_take_much_together() -> None:
    group = Group(limit=1000)
    assert group.run([10] * 9) == [10] * 9
    assert group.most_computing == 3


def test_a_request_above_the_whole_budget_is_computed_alone() -> None:
    assert Group(limit=1).run([0, 50, 50]) == [0, 50, 50]


def test_results_before_a_refused_request_are_recorded() -> None:
    group = Group(limit=100, unavailable=[7])
    with pytest.raises(EngineUnavailable):
        group.run([0, 1, 7, 2])
    assert group.recorded == [0, 1]
    assert group.started == 4, "a model that is not loaded is asked again at once"


def test_a_request_waits_while_clients_take_the_memory() -> None:
    group = Group(limit=100)
    clients = Reservation(group.budget)
    clients.grow(80 * MB)
    with pytest.raises(Overloaded):
        group.run([1, 50])
    assert group.recorded == [1] and group.budget.reserved == 80 * MB
