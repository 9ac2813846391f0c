"""Tests of the job table."""

import time

import numpy as np

from embedwell.engine.wire.messages import IMAGE, Failure, Job, Result, pack_pixels
from embedwell.engine.worker.job_table import JobTable
from embedwell.engine.worker.scheduler import QueuedText
from tests.service.rig import FakeConnection, ids

CONNECTION, OTHER = FakeConnection(), FakeConnection()


def fill(*jobs: list[list[int]]) -> JobTable:
    job_table = JobTable()
    for number, rows in enumerate(jobs):
        job_table.add((CONNECTION, number), Job("dense", [ids(row) for row in rows]))
    return job_table


def vectors(count: int) -> list[np.ndarray]:
    return [np.full(2, number, dtype=np.float32) for number in range(count)]


def test_tokens_are_waiting_until_they_are_taken_or_removed() -> None:
    job_table = fill([[1, 2], [3]], [[4] * 5])
    assert job_table.waiting_tokens == 8
    job_table.take_batch(3)
    assert job_table.waiting_tokens == 5
    job_table.remove((CONNECTION, 1))
    assert job_table.waiting_tokens == 0 and len(job_table) == 1


def test_a_text_has_its_number_of_skipped_tokens() -> None:
    job_table = JobTable()
    job_table.add((CONNECTION, 1), Job(2, [ids([1, 2]), ids([3])], prompt_token_counts=[1, 0]))
    first, second = job_table.take_batch(10)
    assert (first.ids.tolist(), first.prompt_token_count, second.prompt_token_count) == (
        [1, 2],
        1,
        0,
    )
    assert first.item == QueuedText((CONNECTION, 1), 0, 2, 2)


def test_a_result_is_complete_with_the_last_text_and_in_order() -> None:
    job_table = fill([[1], [2], [3]])
    first, second = job_table.take_batch(1), job_table.take_batch(2)
    zero, one, two = vectors(3)
    assert not job_table.collect(second, [one, two], 0.0, 9.0)
    ((number, result),) = job_table.collect(first, [zero], time.perf_counter(), 9.0)[CONNECTION]
    assert number == 0 and isinstance(result, Result) and result.rate == 9.0
    assert result.vectors.tolist() == [[0, 0], [1, 1], [2, 2]]
    assert not len(job_table)


def test_a_job_is_queued_until_its_first_batch_and_computed_until_its_last() -> None:
    job_table, now = JobTable(), time.perf_counter()
    job_table.add((CONNECTION, 0), Job("dense", [ids([1]), ids([2])], created_at=now - 5))
    texts = job_table.take_batch(2)
    assert not job_table.collect(texts[1:], vectors(1), now - 3, 1.0)
    ((_, result),) = job_table.collect(texts[:1], vectors(1), now - 2, 1.0)[CONNECTION]
    assert isinstance(result, Result)
    assert result.queue_us == 2_000_000 and 3_000_000 <= result.compute_us < 4_000_000


def test_a_job_is_queued_from_its_creation() -> None:
    job_table, job = JobTable(), Job("dense", [ids([1])], created_at=time.perf_counter() - 5)
    job_table.add((CONNECTION, 1), job)
    ((_, result),) = job_table.collect(
        job_table.take_batch(1), vectors(1), time.perf_counter(), 1.0
    )[CONNECTION]
    assert isinstance(result, Result) and 5_000_000 <= result.queue_us < 6_000_000


def test_small_jobs_do_not_wait_for_a_large_one() -> None:
    job_table = JobTable()
    job_table.add((CONNECTION, 1), Job("dense", [ids([1])] * 9, size_class=3))
    job_table.add((CONNECTION, 2), Job("dense", [ids([1])]))
    assert [text.item.job[1] for text in job_table.take_batch(4)] == [1, 1, 2]


def test_a_job_fails_with_the_first_text_that_fails_and_only_once() -> None:
    job_table = fill([[1], [2], [3]])
    texts = job_table.take_batch(2)
    results_by_connection = job_table.collect(
        texts, [Failure("bad", 0), Failure("worse", 1)], 0.0, 1.0
    )
    assert results_by_connection == {CONNECTION: [(0, Failure("bad", 0))]}
    assert job_table.waiting_tokens == 0, "the third job still waits"


def test_a_removed_job_has_no_result() -> None:
    job_table = fill([[1]], [[2]])
    texts = job_table.take_batch(10)
    job_table.remove((CONNECTION, 0))
    assert [number for number, _ in job_table.collect(texts, vectors(2), 0.0, 1.0)[CONNECTION]] == [
        1
    ]


def test_a_closed_connection_removes_its_jobs_and_no_others() -> None:
    job_table = fill([[1]], [[2]])
    job_table.add((OTHER, 0), Job("dense", [ids([3, 3])]))
    job_table.remove_connection(CONNECTION)
    assert len(job_table) == 1 and job_table.waiting_tokens == 2


def test_an_image_counts_as_its_tokens_and_not_as_its_pixels() -> None:
    pixels = pack_pixels(np.zeros((8, 8, 3), dtype=np.uint8))
    job_table = JobTable()
    job_table.add((CONNECTION, 0), Job(IMAGE, [pixels] * 3, image_tokens=5))
    assert job_table.waiting_tokens == 15
    batch = job_table.take_batch(10)
    assert [text.item.length for text in batch] == [5, 5] and job_table.waiting_tokens == 5
    results = job_table.collect([*batch, *job_table.take_batch(10)], vectors(3), 0.0, 9.0)
    ((_, result),) = results[CONNECTION]
    assert isinstance(result, Result) and result.vectors.shape == (3, 2)
    assert not result.row_counts
