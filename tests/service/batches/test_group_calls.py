"""Small requests of a group are computed together, and each large one with all memory it needs."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from embedwell.batches.request_lines import RequestLine
from embedwell.batches.route_calls import Result, RouteCalls, compute_group
from embedwell.errors import EngineUnavailable, Overloaded
from embedwell.limits.memory_budget import MemoryBudget, Reservation
from embedwell.routes.common.body import Body
from embedwell.routes.common.router import RequestDep, api_router, direct_routes

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

        self._calls = RouteCalls(direct_routes(routes.routes), self.budget)

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
