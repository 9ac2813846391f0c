"""Tests of the memory budget of large requests."""

import pytest

from embedwell.errors import Overloaded
from embedwell.request.memory_budget import SMALL, MemoryBudget, Reservation


def test_small_requests_always_pass_and_are_not_counted() -> None:
    budget = MemoryBudget(1)
    Reservation(budget).grow(2 * SMALL)
    for _ in range(10):
        Reservation(budget).grow(SMALL)
    assert budget.reserved == 2 * SMALL


def test_large_requests_pass_up_to_the_limit_together() -> None:
    budget = MemoryBudget(10 * SMALL)
    first, second = Reservation(budget), Reservation(budget)
    first.grow(6 * SMALL)
    with pytest.raises(Overloaded) as refused:
        second.grow(5 * SMALL)
    assert refused.value.headers["retry-after"] == "1"
    first.release()
    second.release()
    assert budget.reserved == 0
    second.grow(10 * SMALL)


def test_a_request_that_grows_in_steps_counts_completely() -> None:
    budget = MemoryBudget(10 * SMALL)
    first, growing = Reservation(budget), Reservation(budget)
    first.grow(4 * SMALL)
    for _ in range(6):
        growing.grow(SMALL)
    assert budget.reserved == 10 * SMALL
    with pytest.raises(Overloaded):
        growing.grow(1)


def test_the_only_large_request_may_exceed_the_limit() -> None:
    budget = MemoryBudget(1)
    only = Reservation(budget)
    only.grow(100 * SMALL)
    only.grow(100 * SMALL)
    assert budget.reserved == 200 * SMALL
