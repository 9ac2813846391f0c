"""Tests of the job table."""

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedwell.engine.wire.messages import (
    CONTENT,
    IMAGE,
    Failure,
    Job,
    Result,
    pack_content,
    pack_pixels,
)
from embedwell.engine.worker.forward import BatchVectors, TextFailure
from embedwell.engine.worker.job_table import JobTable, JobTexts, Scheduler, texts_of
from embedwell_models.encoder.batch import FlatRows
from tests.service.rig import FakeConnection, ids

CONNECTION, OTHER = FakeConnection(), FakeConnection()
NO_ROWS = np.empty((0, 0), dtype=np.float32)


def fill(*jobs: list[list[int]]) -> JobTable:
    job_table = JobTable()
    for number, rows in enumerate(jobs):
        job_table.add((CONNECTION, number), Job("dense", FlatRows.of([ids(row) for row in rows])))
    return job_table


def vectors(count: int, first: int = 0) -> BatchVectors:
    """A vector of each text, filled with its number."""
    numbers = np.arange(first, first + count, dtype=np.float32)
    return BatchVectors(numbers[:, None].repeat(2, axis=1))


def test_tokens_are_waiting_until_they_are_taken_or_removed() -> None:
    job_table = fill([[1, 2], [3]], [[4] * 5])
    assert job_table.waiting_tokens == 8
    job_table.take_batch(3)
    assert job_table.waiting_tokens == 5
    job_table.remove((CONNECTION, 1))
    assert job_table.waiting_tokens == 0 and len(job_table) == 1


def test_a_text_has_its_number_of_skipped_tokens() -> None:
    job_table = JobTable()
    job_table.add(
        (CONNECTION, 1), Job(2, FlatRows.of([ids([1, 2]), ids([3])]), prompt_token_counts=[1, 0])
    )
    job_table.add((CONNECTION, 2), Job(2, FlatRows.of([ids([4])])))
    texts = texts_of(job_table.take_batch(10))
    assert (texts.output, [row.tolist() for row in texts.rows]) == (2, [[1, 2], [3], [4]])
    assert texts.prompt_token_counts == [1, 0, 0]


def test_the_later_texts_of_a_job_have_their_numbers_of_skipped_tokens() -> None:
    rows = FlatRows.of([ids([1, 2])] * 3)
    job_table = JobTable()
    job_table.add((CONNECTION, 1), Job(2, rows, prompt_token_counts=[0, 1, 2]))
    counts = [texts_of(job_table.take_batch(4)).prompt_token_counts for _ in range(2)]
    assert counts == [[0, 1], [2]]


def test_a_result_of_vectors_of_tokens_has_their_number_in_each_text() -> None:
    job_table = JobTable()
    job_table.add((CONNECTION, 1), Job("multi", FlatRows.of([ids([1, 2]), ids([3])])))
    batch = job_table.take_batch(10)
    of_tokens = BatchVectors.of_each([np.ones((2, 4), np.float32), np.ones((1, 4), np.float32)])
    ((_, result),) = job_table.collect(batch, of_tokens, 0.0, 9.0)[CONNECTION]
    assert isinstance(result, Result) and result.row_counts == [2, 1]


def test_a_batch_has_the_texts_of_its_parts() -> None:
    job_table = fill([[1, 2], [3], [4]], [[5]])
    texts = [texts_of(job_table.take_batch(3)) for _ in range(2)]
    rows = [[row.tolist() for row in each.rows] for each in texts]
    assert rows == [[[1, 2], [3]], [[4], [5]]]
    assert [each.prompt_token_counts for each in texts] == [[], []]


def test_a_result_is_complete_with_the_last_text_and_in_order() -> None:
    job_table = fill([[1], [2], [3]])
    first, second = job_table.take_batch(1), job_table.take_batch(2)
    assert not job_table.collect(second, vectors(2, first=1), 0.0, 9.0)
    collected = job_table.collect(first, vectors(1), time.perf_counter(), 9.0)
    ((number, result),) = collected[CONNECTION]
    assert number == 0 and isinstance(result, Result) and result.rate == 9.0
    assert result.vectors.tolist() == [[0, 0], [1, 1], [2, 2]]
    assert not len(job_table)


def test_a_job_is_queued_until_its_first_batch_and_computed_until_its_last() -> None:
    job_table, now = JobTable(), time.perf_counter()
    job_table.add(
        (CONNECTION, 0), Job("dense", FlatRows.of([ids([1]), ids([2])]), created_at=now - 5)
    )
    first, second = job_table.take_batch(1), job_table.take_batch(1)
    assert not job_table.collect(second, vectors(1), now - 3, 1.0)
    ((_, result),) = job_table.collect(first, vectors(1), now - 2, 1.0)[CONNECTION]
    assert isinstance(result, Result)
    assert result.queue_us == 2_000_000 and 3_000_000 <= result.compute_us < 4_000_000


def test_a_job_is_queued_from_its_creation() -> None:
    job_table, created_at = JobTable(), time.perf_counter() - 5
    job = Job("dense", FlatRows.of([ids([1])]), created_at=created_at)
    job_table.add((CONNECTION, 1), job)
    ((_, result),) = job_table.collect(
        job_table.take_batch(1), vectors(1), time.perf_counter(), 1.0
    )[CONNECTION]
    assert isinstance(result, Result) and 5_000_000 <= result.queue_us < 6_000_000


def test_small_jobs_do_not_wait_for_a_large_one() -> None:
    job_table = JobTable()
    job_table.add((CONNECTION, 1), Job("dense", FlatRows.of([ids([1])] * 9), size_class=3))
    job_table.add((CONNECTION, 2), Job("dense", FlatRows.of([ids([1])])))
    parts = [(part.job.number, part.tokens) for part in job_table.take_batch(4)]
    assert parts == [(1, 2), (2, 1)]


def test_a_job_fails_with_the_first_text_that_fails_and_only_once() -> None:
    job_table = fill([[1], [2], [3]])
    first, second = job_table.take_batch(1), job_table.take_batch(2)
    bad, worse = TextFailure("bad", finite=False), TextFailure("worse")
    collected = job_table.collect(second, BatchVectors(NO_ROWS, [0, 0], {0: bad, 1: worse}), 0.0, 1)
    assert collected == {CONNECTION: [(0, Failure("bad", 1, finite=False))]}
    assert not job_table.collect(first, BatchVectors(NO_ROWS, [0], {0: worse}), 0.0, 1)


def test_a_failure_ends_the_texts_of_its_job_that_wait_and_no_other_job() -> None:
    job_table = fill([[1], [2], [3]], [[4]])
    failed = BatchVectors(NO_ROWS, [0, 0], {1: TextFailure("bad")})
    assert job_table.collect(job_table.take_batch(2), failed, 0.0, 1)
    assert job_table.waiting_tokens == 1 and len(job_table) == 1
    ((number, _),) = job_table.collect(job_table.take_batch(9), vectors(1), 0.0, 1)[CONNECTION]
    assert number == 1


def test_a_removed_job_has_no_result() -> None:
    job_table = fill([[1]], [[2]])
    texts = job_table.take_batch(10)
    job_table.remove((CONNECTION, 0))
    assert [number for number, _ in job_table.collect(texts, vectors(2), 0.0, 1.0)[CONNECTION]] == [
        1
    ]


def test_a_closed_connection_removes_its_jobs_and_no_others() -> None:
    job_table = fill([[1]], [[2]])
    job_table.add((OTHER, 0), Job("dense", FlatRows.of([ids([3, 3])])))
    job_table.remove_connection(CONNECTION)
    assert len(job_table) == 1 and job_table.waiting_tokens == 2


def test_an_image_counts_as_its_tokens_and_not_as_its_pixels() -> None:
    pixels = pack_pixels(np.zeros((8, 8, 3), dtype=np.uint8))
    job_table = JobTable()
    job_table.add((CONNECTION, 0), Job(IMAGE, FlatRows.of([pixels] * 3), image_tokens=5))
    assert job_table.waiting_tokens == 15
    batch = job_table.take_batch(10)
    assert [part.tokens for part in batch] == [10] and job_table.waiting_tokens == 5
    texts = texts_of(batch)
    assert texts.tokens == 10 and [len(row) for row in texts.rows] == [len(pixels)] * 2
    assert not job_table.collect(batch, vectors(2), 0.0, 9.0)
    results = job_table.collect(job_table.take_batch(10), vectors(1), 0.0, 9.0)
    ((_, result),) = results[CONNECTION]
    assert isinstance(result, Result) and result.vectors.shape == (3, 2)
    assert not result.row_counts


def test_texts_with_different_numbers_of_images_share_no_batch() -> None:
    job_table, pixels = JobTable(), np.zeros((8, 8, 3), dtype=np.uint8)
    for number, tokens in enumerate((5, 7, 5)):
        row = pack_content(ids([1] * tokens), [pixels])
        job_table.add((CONNECTION, number), Job(CONTENT, FlatRows.of([row]), image_tokens=tokens))
    taken = [texts_of(job_table.take_batch(100)).tokens for _ in range(2)]
    assert sorted(taken) == [7, 10] and job_table.nothing_waits


Jobs = list[tuple[list[int], int]]  # the lengths of its texts, and its size class


def scheduler_of(*jobs: tuple[list[int], int]) -> Scheduler[int]:
    scheduler: Scheduler[int] = Scheduler()
    for job, (lengths, size) in enumerate(jobs):
        scheduler.add(job, lengths, "dense", size)
    return scheduler


def singles(*lengths: int) -> Scheduler[int]:
    return scheduler_of(*(([length], 0) for length in lengths))


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
    assert drain(scheduler_of(([3, 4], 0), ([5], 0)), 100) == [[7, 5]]


def test_half_of_a_batch_is_for_the_oldest_jobs_and_half_for_those_due_first() -> None:
    scheduler = scheduler_of(([10] * 20, 2), ([10] * 3, 1), ([10], 0), ([10] * 2, 1))
    assert jobs(scheduler.take_batch(80)) == [0, 0, 0, 0, 2, 1, 1, 1]
    assert jobs(scheduler.take_batch(80)) == [3, 0, 0, 0, 3, 0, 0, 0]


def test_the_larger_half_of_an_odd_batch_is_for_the_oldest_job() -> None:
    assert jobs(scheduler_of(([1] * 9, 2), ([1] * 9, 1)).take_batch(3)) == [0, 0, 1]


def test_small_jobs_do_not_share_their_batch_with_much_larger_ones() -> None:
    scheduler = scheduler_of(([10] * 20, 4), ([10] * 20, 4), ([10], 1))
    assert jobs(scheduler.take_batch(80)) == [0, 0, 0, 0, 2]
    assert jobs(scheduler.take_batch(80)) == [0] * 8
    assert jobs(scheduler_of(([10], 0), ([10] * 20, 4)).take_batch(80)) == [0, 1, 1, 1]
    scheduler = scheduler_of(([10], 1), ([10] * 20, 4), ([10] * 20, 3))
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
    scheduler = scheduler_of(([length] * 500, 9), ([12], 0))
    assert batches_until(scheduler, 1, 511) <= 2


@pytest.mark.parametrize("kind", ["dense", "tokens"])
def test_a_medium_job_is_due_before_much_later_queries(kind: str) -> None:
    scheduler = scheduler_of(([14] * 15_000, 12))
    scheduler.add(1, [100] * 3, kind, 3)
    assert batches_until(scheduler, 1, 511) <= 16 * 512 / 256


def test_a_medium_job_is_not_due_before_sixteen_times_its_tokens() -> None:
    scheduler = scheduler_of(
        ([14] * 15_000, 12), ([100] * 3, 3)
    )  # a job of its class has up to 512
    tokens = scheduler.tokens
    batches = batches_until(scheduler, 1, 511)
    assert tokens + 12 * batches - scheduler.tokens >= 16 * 512 - 16 * 64, "less what a query waits"


def test_a_query_of_another_kind_does_not_wait_for_later_queries() -> None:
    scheduler = scheduler_of(([14] * 15_000, 12), ([12], 0))
    scheduler.add(2, [12], "tokens", 0)
    assert batches_until(scheduler, 2, 511) <= 4


def test_the_oldest_job_progresses_while_smaller_ones_keep_coming() -> None:
    scheduler, done = scheduler_of(([10] * 40, 5)), 0
    for query in range(1, 11):
        for part in range(20):
            scheduler.add(100 * query + part, [10], "dense", 0)
        done += jobs(scheduler.take_batch(80)).count(0)
    assert done == 35, "half the capacity, less the oldest text of every other batch"


def test_a_long_text_that_came_first_begins_every_other_batch() -> None:
    scheduler = scheduler_of(([70] * 2, 3))
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
    scheduler = scheduler_of(([10] * 9, 4))
    for job in range(1, 7):
        scheduler.add(job, [10], "tokens", 0)
    batches = [jobs(scheduler.take_batch(20)) for _ in range(7)]
    assert batches == [[0, 0], [1, 2], [0, 0], [3, 4], [0, 0], [5, 6], [0, 0]]


def test_a_cancelled_job_is_removed_and_others_stay() -> None:
    scheduler = scheduler_of(([4, 1], 0), ([5], 0))
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
    scheduler = scheduler_of(*submitted)
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
    scheduler = scheduler_of(([600, 5], 4), ([90, 80], 2), ([7], 0), ([900], 4), ([8], 0))
    assert jobs(scheduler.take_short_texts(100)) == [2, 4]
    assert jobs(scheduler.take_short_texts(100)) == [1]
    assert jobs(scheduler.take_short_texts(100)) == [1]
    assert scheduler.take_short_texts(100) == [] and scheduler.tokens == 1505


def test_a_text_of_just_the_budget_is_short() -> None:
    assert jobs(singles(101, 100).take_short_texts(100)) == [1]
