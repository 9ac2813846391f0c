"""Tests of the memory budget of large requests."""

from dataclasses import dataclass, field

import pytest

from embedwell.compute.memory_budget import SMALL, MemoryBudget, Reservation
from embedwell.errors import Overloaded


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
    second.grow(SMALL)
    assert budget.reserved == 0, "it is a small request again"
    second.grow(9 * SMALL)


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


def test_a_strict_budget_is_for_no_request_above_it() -> None:
    budget = MemoryBudget(3 * SMALL, strict=True)
    only = Reservation(budget)
    only.grow(3 * SMALL)
    with pytest.raises(Overloaded):
        only.grow(1)


@dataclass(eq=False)
class Client:
    """A client that has stopped reading a response of some size."""

    budget: MemoryBudget
    size: int
    ended: bool = False
    memory: Reservation = field(init=False)

    def __post_init__(self) -> None:
        self.memory = Reservation(self.budget)
        self.memory.grow(self.size)
        self.budget.pause(self)

    def give_way(self) -> None:
        self.ended = True


def test_the_client_that_stopped_reading_first_gives_way_to_a_request_that_needs_its_memory() -> (
    None
):
    budget = MemoryBudget(10 * SMALL, max_pause=0)
    clients = [Client(budget, 3 * SMALL) for _ in range(3)]
    budget.pause(clients[0])
    Reservation(budget).grow(4 * SMALL)
    assert [client.ended for client in clients] == [True, False, False]
    assert budget.reserved == 10 * SMALL
    clients[0].memory.release()
    assert budget.reserved == 10 * SMALL


def test_the_client_with_the_longest_pauses_together_gives_way_first() -> None:
    budget = MemoryBudget(10 * SMALL, max_pause=1000)
    first, second = [Client(budget, 5 * SMALL) for _ in range(2)]
    for client, seconds in ((first, 2000), (second, 3000)):
        budget.resume(client)
        budget.pause(client, seconds)
    Reservation(budget).grow(2 * SMALL)
    assert (first.ended, second.ended) == (False, True)


def test_no_client_gives_way_in_vain() -> None:
    budget = MemoryBudget(10 * SMALL, max_pause=0)
    Reservation(budget).grow(6 * SMALL)
    client = Client(budget, 4 * SMALL)
    with pytest.raises(Overloaded):
        Reservation(budget).grow(5 * SMALL)
    assert not client.ended
    Reservation(budget).grow(4 * SMALL)
    assert client.ended


def test_no_client_gives_way_that_stopped_reading_just_now() -> None:
    budget = MemoryBudget(10 * SMALL, max_pause=1000)
    client = Client(budget, 8 * SMALL)
    with pytest.raises(Overloaded):
        Reservation(budget).grow(4 * SMALL)
    assert not client.ended


def test_no_client_gives_way_that_reads_again() -> None:
    budget = MemoryBudget(10 * SMALL, max_pause=0)
    client = Client(budget, 8 * SMALL)
    budget.resume(client)
    with pytest.raises(Overloaded):
        Reservation(budget).grow(4 * SMALL)
    assert not client.ended


def test_no_client_gives_way_to_its_own_next_request() -> None:
    budget = MemoryBudget(10 * SMALL, max_pause=0)
    Reservation(budget).grow(6 * SMALL)
    client = Client(budget, 4 * SMALL)
    with pytest.raises(Overloaded):
        client.memory.grow(1)
    assert not client.ended


@pytest.mark.parametrize("strict", [False, True])
def test_clients_give_way_to_a_request_above_the_limit_if_it_is_allowed(strict: bool) -> None:
    budget = MemoryBudget(10 * SMALL, strict, max_pause=0)
    client, request = Client(budget, 8 * SMALL), Reservation(budget)
    if strict:
        with pytest.raises(Overloaded):
            request.grow(12 * SMALL)
    else:
        request.grow(12 * SMALL)
    assert client.ended is not strict


def test_no_client_gives_way_whose_memory_is_of_another_budget() -> None:
    budget = MemoryBudget(10 * SMALL, max_pause=0)
    client = Client(MemoryBudget(), 8 * SMALL)
    budget.pause(client)
    Reservation(budget).grow(8 * SMALL)
    with pytest.raises(Overloaded):
        Reservation(budget).grow(4 * SMALL)
    assert not client.ended
