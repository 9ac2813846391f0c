"""The scheduler, with lists of integers."""

from hypothesis import given
from hypothesis import strategies as st

from service.engine.scheduler import Item, Scheduler


def fill(*lengths: int, kind: str = "pooled") -> Scheduler[int]:
    scheduler: Scheduler[int] = Scheduler()
    for job, length in enumerate(lengths):
        scheduler.add(Item(job, 0, length, kind))
    return scheduler


def drain(scheduler: Scheduler[int], budget: int) -> list[list[int]]:
    batches = []
    while scheduler:
        batches.append([item.length for item in scheduler.next(budget)])
    return batches


def test_nothing_waiting_is_no_batch() -> None:
    assert fill().next(10) == []


def test_the_oldest_is_in_the_batch_and_the_shortest_fill_it() -> None:
    scheduler = fill(600, 900, 100, 300, 200)
    assert drain(scheduler, 1000) == [[600, 100, 200], [900], [300]]


def test_among_short_ones_the_first_come_first() -> None:
    assert drain(fill(50, 60, 5, 70, 64), 180) == [[50, 60, 5, 64], [70]]


def test_what_is_longer_than_the_budget_goes_alone() -> None:
    assert drain(fill(50, 1, 60), 10) == [[50], [1], [60]]


def test_kinds_do_not_mix() -> None:
    scheduler = fill(2, 3)
    scheduler.add(Item(7, 0, 1, "tokens"))
    assert [item.job for item in scheduler.next(10)] == [0, 1]
    assert [item.job for item in scheduler.next(10)] == [7]


def test_a_cancelled_job_is_forgotten_and_others_stay() -> None:
    scheduler = fill(4, 5)
    scheduler.add(Item(0, 1, 1, "pooled"))
    scheduler.cancel(0)
    scheduler.cancel("never seen")  # type: ignore[arg-type]
    assert (len(scheduler), scheduler.tokens) == (1, 5) and drain(scheduler, 10) == [[5]]


@given(st.lists(st.integers(1, 200), max_size=60), st.integers(1, 400))
def test_every_item_is_served_once_within_the_budget_and_in_time(
    lengths: list[int], budget: int
) -> None:
    scheduler = fill(*lengths)
    served: list[int] = []
    while scheduler:
        left = set(range(len(lengths))) - set(served)
        assert scheduler.tokens == sum(lengths[job] for job in left)
        batch = scheduler.next(budget)
        assert batch[0].job == min(left)
        assert len(batch) == 1 or sum(item.length for item in batch) <= budget
        served += [item.job for item in batch]
    assert sorted(served) == list(range(len(lengths))) and not scheduler.tokens
