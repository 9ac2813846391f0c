"""Tests of the job table."""

import time

import numpy as np

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
from embedwell.engine.worker.job_table import JobTable, texts_of
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
