"""Tests of the scheduler, with integers as jobs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedwell.engine.worker.scheduler import JobTexts, Scheduler

Jobs = list[tuple[list[int], int]]  # the lengths of its texts, and its size class


def fill(*jobs: tuple[list[int], int]) -> Scheduler[int]:
    scheduler: Scheduler[int] = Scheduler()
    for job, (lengths, size) in enumerate(jobs):
        scheduler.add(job, lengths, "dense", size)
    return scheduler


def singles(*lengths: int) -> Scheduler[int]:
    return fill(*(([length], 0) for length in lengths))


def drain(scheduler: Scheduler[int], max_tokens: int) -> list[list[int]]:
    batches = []
    while scheduler:
        batches.append([part.tokens for part in scheduler.take_batch(max_tokens)])
    return batches


def jobs(batch: list[JobTexts[int]]) -> list[int]:
    """The job of each text of a batch."""
    return [part.job for part in batch for _ in range(part.start, part.stop)]


def test_an_empty_queue_has_no_batch() -> None:
    assert singles().take_batch(10) == []


def test_jobs_of_the_same_size_are_served_in_order_of_arrival() -> None:
    assert drain(singles(50, 60, 5, 70, 64), 180) == [[50, 60, 5], [70, 64]]
    assert drain(fill(([3, 4], 0), ([5], 0)), 100) == [[7, 5]]


def test_half_of_a_batch_is_for_the_oldest_jobs_and_half_for_those_due_first() -> None:
    scheduler = fill(([10] * 20, 2), ([10] * 3, 1), ([10], 0), ([10] * 2, 1))
    assert jobs(scheduler.take_batch(80)) == [0, 0, 0, 0, 2, 1, 1, 1]
    assert jobs(scheduler.take_batch(80)) == [3, 0, 0, 0, 3, 0, 0, 0]


def test_the_larger_half_of_an_odd_batch_is_for_the_oldest_job() -> None:
    assert jobs(fill(([1] * 9, 2), ([1] * 9, 1)).take_batch(3)) == [0, 0, 1]


def test_small_jobs_do_not_share_their_batch_with_much_larger_ones() -> None:
    scheduler = fill(([10] * 20, 4), ([10] * 20, 4), ([10], 1))
    assert jobs(scheduler.take_batch(80)) == [0, 0, 0, 0, 2]
    assert jobs(scheduler.take_batch(80)) == [0] * 8
    assert jobs(fill(([10], 0), ([10] * 20, 4)).take_batch(80)) == [0, 1, 1, 1]
    scheduler = fill(([10], 1), ([10] * 20, 4), ([10] * 20, 3))
    assert jobs(scheduler.take_batch(80)) == [0, 1, 1, 1, 2, 2, 2, 2], "1 as the oldest"


def batches_until(scheduler: Scheduler[int], job: int, max_tokens: int, kind: str = "dense") -> int:
    """Count the batches until a job is served while a new query arrives before each."""
    for number in range(1, 2000):
        scheduler.add(1000 + number, [12], kind, 0)
        if job in jobs(scheduler.take_batch(max_tokens)):
            return number
    raise AssertionError("never")


@pytest.mark.parametrize("length", [14, 250, 300, 495, 505, 512, 600])
def test_a_query_waits_for_at_most_one_batch_of_earlier_texts(
    length: int,
) -> None:
    scheduler = fill(([length] * 500, 9), ([12], 0))
    assert batches_until(scheduler, 1, 511) <= 2


@pytest.mark.parametrize("kind", ["dense", "tokens"])
def test_a_medium_job_is_due_before_much_later_queries(kind: str) -> None:
    scheduler = fill(([14] * 15_000, 12))
    scheduler.add(1, [100] * 3, kind, 3)
    assert batches_until(scheduler, 1, 511) <= 16 * 512 / 256


def test_a_medium_job_is_not_due_before_sixteen_times_its_tokens() -> None:
    scheduler = fill(([14] * 15_000, 12), ([100] * 3, 3))  # a job of its class has up to 512
    tokens = scheduler.tokens
    batches = batches_until(scheduler, 1, 511)
    assert tokens + 12 * batches - scheduler.tokens >= 16 * 512 - 16 * 64, "less what a query waits"


def test_a_query_of_another_kind_does_not_wait_for_later_queries() -> None:
    scheduler = fill(([14] * 15_000, 12), ([12], 0))
    scheduler.add(2, [12], "tokens", 0)
    assert batches_until(scheduler, 2, 511) <= 4


def test_the_oldest_job_progresses_while_smaller_ones_keep_coming() -> None:
    scheduler, done = fill(([10] * 40, 5)), 0
    for query in range(1, 11):
        for part in range(20):
            scheduler.add(100 * query + part, [10], "dense", 0)
        done += jobs(scheduler.take_batch(80)).count(0)
    assert done == 35, "half the capacity, less the oldest text of every other batch"


def test_a_long_text_that_came_first_begins_every_other_batch() -> None:
    scheduler = fill(([70] * 2, 3))
    for query in range(1, 30):
        scheduler.add(query, [10], "dense", 0)
    assert jobs(scheduler.take_batch(100)) == [0, 1, 2, 3]
    assert jobs(scheduler.take_batch(100)) == [*range(4, 14)]
    assert jobs(scheduler.take_batch(100)) == [0, 14, 15, 16]


def test_a_text_longer_than_the_budget_is_a_batch() -> None:
    assert drain(singles(50, 1, 60), 10) == [[50], [1], [60]]


def test_kinds_do_not_mix() -> None:
    scheduler = singles(2, 3)
    scheduler.add(7, [1], "tokens", 0)
    scheduler.add(8, [1], "dense", 0)
    assert jobs(scheduler.take_batch(10)) == [0, 1, 8]
    assert jobs(scheduler.take_batch(10)) == [7]


def test_small_jobs_and_a_large_one_of_another_kind_alternate() -> None:
    scheduler = fill(([10] * 9, 4))
    for job in range(1, 7):
        scheduler.add(job, [10], "tokens", 0)
    batches = [jobs(scheduler.take_batch(20)) for _ in range(7)]
    assert batches == [[0, 0], [1, 2], [0, 0], [3, 4], [0, 0], [5, 6], [0, 0]]


def test_a_cancelled_job_is_removed_and_others_stay() -> None:
    scheduler = fill(([4, 1], 0), ([5], 0))
    assert jobs(scheduler.take_batch(4)) == [0]
    scheduler.cancel(0)
    scheduler.cancel("never seen")  # type: ignore[arg-type]
    assert scheduler.tokens == 5 and drain(scheduler, 10) == [[5]]


@given(
    st.lists(st.tuples(st.lists(st.integers(0, 200), min_size=1, max_size=9), st.integers(0, 9))),
    st.integers(1, 400),
)
def test_every_text_is_served_once_within_the_budget_and_the_oldest_in_every_other_batch(
    submitted: Jobs, max_tokens: int
) -> None:
    scheduler = fill(*submitted)
    odd = False
    remaining = {
        (job, index) for job, (lengths, _) in enumerate(submitted) for index in range(len(lengths))
    }
    while remaining:
        assert scheduler
        assert scheduler.tokens == sum(submitted[job][0][index] for job, index in remaining)
        batch = scheduler.take_batch(max_tokens)
        texts = [(part.job, index) for part in batch for index in range(part.start, part.stop)]
        taken = {*texts}
        assert len(taken) == len(texts) and taken <= remaining
        # The first of every two passes begins with it.
        odd = not odd
        assert min(remaining) in taken or not odd
        assert len(texts) == 1 or sum(part.tokens for part in batch) <= max_tokens
        for part in batch:
            lengths, size = submitted[part.job]
            assert part.tokens == sum(lengths[part.start : part.stop])
            assert part.size_class == size
        remaining -= taken
    assert not scheduler and not scheduler.tokens and not scheduler.take_batch(max_tokens)


def test_of_short_texts_those_that_are_due_first_are_taken() -> None:
    scheduler = fill(([600, 5], 4), ([90, 80], 2), ([7], 0), ([900], 4), ([8], 0))
    assert jobs(scheduler.take_short_texts(100)) == [2, 4]
    assert jobs(scheduler.take_short_texts(100)) == [1]
    assert jobs(scheduler.take_short_texts(100)) == [1]
    assert scheduler.take_short_texts(100) == [] and scheduler.tokens == 1505


def test_a_text_of_just_the_budget_is_short() -> None:
    assert jobs(singles(101, 100).take_short_texts(100)) == [1]
