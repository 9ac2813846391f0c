"""The scheduler, with lists of integers."""

from hypothesis import given
from hypothesis import strategies as st

from service.engine.scheduler import Item, Scheduler


def fill(budget: int, *lengths: int, kind: str = "pooled") -> Scheduler[int]:
    scheduler: Scheduler[int] = Scheduler(budget)
    for job, length in enumerate(lengths):
        scheduler.add(Item(job, 0, length, kind))
    return scheduler


def drain(scheduler: Scheduler[int]) -> list[list[int]]:
    batches = []
    while scheduler:
        batches.append([item.length for item in scheduler.next()])
    return batches


def test_nothing_waiting_is_no_batch() -> None:
    assert fill(10).next() == []


def test_the_oldest_is_in_the_batch_and_the_shortest_fill_it() -> None:
    assert drain(fill(10, 6, 9, 1, 3, 2)) == [[6, 1, 2], [9], [3]]


def test_what_is_longer_than_the_budget_goes_alone() -> None:
    assert drain(fill(10, 50, 1, 60)) == [[50], [1], [60]]


def test_kinds_do_not_mix() -> None:
    scheduler = fill(10, 2, 3)
    scheduler.add(Item(7, 0, 1, "tokens"))
    assert [item.job for item in scheduler.next()] == [0, 1]
    assert [item.job for item in scheduler.next()] == [7]


def test_a_cancelled_job_is_forgotten_and_others_stay() -> None:
    scheduler = fill(10, 4, 5)
    scheduler.add(Item(0, 1, 1, "pooled"))
    scheduler.cancel(0)
    scheduler.cancel("never seen")  # type: ignore[arg-type]
    assert len(scheduler) == 1 and drain(scheduler) == [[5]]


@given(st.lists(st.integers(1, 40), max_size=60), st.integers(1, 64))
def test_every_item_is_served_once_within_the_budget_and_in_time(
    lengths: list[int], budget: int
) -> None:
    scheduler = fill(budget, *lengths)
    served: list[int] = []
    while scheduler:
        oldest = min(set(range(len(lengths))) - set(served))
        batch = scheduler.next()
        assert batch[0].job == oldest
        assert len(batch) == 1 or sum(item.length for item in batch) <= budget
        served += [item.job for item in batch]
    assert sorted(served) == list(range(len(lengths)))
