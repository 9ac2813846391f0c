"""Similarity scores, few at once and many in a queue, and the sparse vectors that are compared."""

import asyncio
import threading
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import orjson
import pytest

from embedwell.compute.request_limits import RequestCosts
from embedwell.compute.similarity_scores import compute_sparse_vectors, similarity_scores
from embedwell.compute.work_queue import FEW_OPERATIONS, ComparisonQueue
from embedwell.engine.wire.messages import Job, Result
from embedwell.errors import EncodingFailed, Overloaded, TooLarge
from embedwell_models.outputs.names import SPARSE, SPARSE_QUERY
from embedwell_models.outputs.text_outputs import SparseVector, TextOutputs
from embedwell_models.read.inputs import InputRow
from embedwell_models.tokenizer.steps import Steps, run_to_completion
from embedwell_models.vectors import METRICS, Floats
from tests.service.pipelines import comparisons, pipeline_of

R = TypeVar("R")

RANDOM = np.random.default_rng(5)


@dataclass(frozen=True)
class Options:
    metric: str = "dot"
    mode: str = "matrix"
    top_k: int | None = None


def column(count: int) -> Floats:
    return RANDOM.normal(size=(count, 1)).astype(np.float32)


def compute(a: Floats, b: Floats, options: Options, max_values: int = 4_000_000) -> Any:
    return asyncio.run(similarity_scores(a, b, options, max_values, comparisons()))


class OperationCounter(ComparisonQueue):
    """Queue that runs comparisons at once and records how much work it is."""

    def __init__(self) -> None:
        self.operations = 0

    async def run(self, steps: Steps[R], operations: int) -> R:
        self.operations = operations
        return run_to_completion(steps)


def operations(metric: str, mode: str, shape: tuple[int, int], top_k: int | None = None) -> int:
    counter, vectors = OperationCounter(), np.ones(shape, dtype=np.float32)
    options = Options(metric, mode, top_k)
    asyncio.run(similarity_scores(vectors, vectors, options, 4_000_000, counter))
    return counter.operations


@pytest.mark.parametrize(
    ("shape", "is_large", "mode", "top_k"),
    [
        ((1400, 1), True, "matrix", 1400),
        ((1400, 1), True, "matrix", None),
        ((25_000, 1), True, "pairwise", None),
        ((10, 1), False, "matrix", 10),
        ((10, 1), False, "pairwise", None),
        ((10, 384), False, "matrix", None),
    ],
)
def test_many_scores_are_work_for_the_queue_and_few_are_not(
    shape: tuple[int, int], is_large: bool, mode: str, top_k: int | None
) -> None:
    assert (operations("dot", mode, shape, top_k) > FEW_OPERATIONS) == is_large


def test_distances_and_top_scores_count_as_the_time_that_they_take() -> None:
    shape = (100, 384)
    dot = operations("dot", "matrix", shape)
    assert operations("cosine", "matrix", shape) == dot == 100 * 100 * 384
    assert operations("euclidean", "matrix", shape) == operations("manhattan", "matrix", shape)
    assert 10 * dot < operations("manhattan", "matrix", shape) < 100 * dot
    one, many = (operations("dot", "matrix", shape, top_k) for top_k in (1, 99))
    assert dot < one < many


def test_sorting_and_writing_the_closest_count_in_proportion_to_the_scores_and_to_top_k() -> None:
    def extra(count: int, top_k: int) -> float:
        """How much more each of `count` rows counts than without top_k."""
        with_top_k, without = (operations("dot", "matrix", (count, 1), k) for k in (top_k, None))
        return (with_top_k - without) / count

    writing_a_score = operations("dot", "matrix", (100, 1)) / 100**2
    sorting_a_score = (extra(200, 1) - extra(100, 1)) / 100
    writing_an_entry = extra(100, 2) - extra(100, 1)
    assert extra(100, 70) == 100 * sorting_a_score + 70 * writing_an_entry
    assert extra(100, 999) == extra(100, 100), "there are no more entries"
    assert 2 * writing_a_score < sorting_a_score < 10 * writing_a_score
    assert 4 * sorting_a_score < writing_an_entry < 20 * sorting_a_score


def test_many_scores_are_refused_that_would_wait_too_long() -> None:
    started, done = threading.Event(), threading.Event()

    def first() -> Steps[bool]:
        started.set()
        yield
        return done.wait(60)

    async def run() -> None:
        queue = comparisons(rate=100, max_wait=1)  # 100 million operations per second
        working = asyncio.create_task(queue.run(first(), 5 * 10**8))
        many, few = column(1400), column(10)
        await asyncio.to_thread(started.wait, 60)
        for options in (Options(), Options(top_k=3), Options("euclidean")):
            with pytest.raises(Overloaded, match="would wait"):
                await similarity_scores(many, many, options, 4_000_000, queue)
            await similarity_scores(few, few, options, 4_000_000, queue)
        done.set()
        await working
        await similarity_scores(many, many, Options(), 4_000_000, queue)

    asyncio.run(run())


@pytest.mark.parametrize("metric", METRICS)
def test_scores_in_several_steps_are_those_in_one(metric: str) -> None:
    a, b = (RANDOM.normal(size=(700, 1024)).astype(np.float32) for _ in "ab")
    expected = METRICS[metric](a, b)
    actual = compute(a, b, Options(metric))
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("count", [3, 300])
@pytest.mark.parametrize("metric", METRICS)
def test_few_and_many_scores_are_the_same(metric: str, count: int) -> None:
    a, b = column(count), column(count)
    expected = METRICS[metric](a, b)
    actual = compute(a, b, Options(metric))
    assert np.array_equal(actual, expected)
    actual = compute(a, b, Options(metric, "pairwise"))
    np.testing.assert_allclose(actual, np.diag(expected), rtol=1e-6)
    actual = compute(a, b, Options(metric, top_k=2))
    for entries, row in zip(orjson.loads(orjson.dumps(actual)), expected, strict=True):
        best = np.argsort(-row, kind="stable")[:2]
        assert entries == [{"index": i, "score": row[i].item()} for i in best]


@pytest.mark.parametrize("count", [3, 7, 30])
def test_equal_scores_keep_their_order(count: int) -> None:
    one, other = RANDOM.normal(size=(2, 1, 384)).astype(np.float32)
    equals = other.repeat(count, axis=0)
    actual = compute(one, equals, Options("cosine", top_k=count))
    (entries,) = orjson.loads(orjson.dumps(actual))
    assert [entry["index"] for entry in entries] == list(range(count))


def test_an_entry_of_top_k_is_two_numbers() -> None:
    few, many = column(10), column(30)
    compute(few, many, Options(top_k=20), 400)
    with pytest.raises(TooLarge, match="the response would have 420 numbers, but the limit is 400"):
        compute(few, many, Options(top_k=21), 400)
    with pytest.raises(TooLarge, match="the response would have 600 numbers"):
        compute(few, many, Options(top_k=99), 500)


A_TEXT = InputRow(np.array([5], dtype=np.int32), 0)
VECTOR = SparseVector(np.array([3], dtype=np.int32), np.array([2], dtype=np.float32))


@dataclass
class FailingEngine:
    """Fails on the second text of jobs of one output."""

    description = None
    output: str

    async def submit(self, job: Job, timeout: float) -> Result:
        if job.output == self.output:
            raise EncodingFailed("it fails", index=1)
        columns = [TextOutputs(sparse=VECTOR).pack() for _ in job.texts_ids]
        return Result(np.concatenate(columns), 5, 7, 1.0, [*map(len, columns)])


@pytest.mark.parametrize(("output", "index"), [(SPARSE_QUERY, 1), (SPARSE, 4)])
def test_a_failure_has_the_index_among_all_inputs(output: str, index: int) -> None:
    pipeline = pipeline_of(FailingEngine(output), output_names=(SPARSE, SPARSE_QUERY))
    compared = compute_sparse_vectors(
        pipeline, RequestCosts(), [A_TEXT] * 5, num_queries=3, max_values=100
    )
    with pytest.raises(EncodingFailed) as failed:
        asyncio.run(compared)
    assert failed.value.index == index


@dataclass
class StuckEngine:
    """Computes its first job alone; vectors have 3 entries."""

    description = None
    jobs: int = 0

    async def submit(self, job: Job, timeout: float) -> Result:
        self.jobs += 1
        if self.jobs > 1:
            await asyncio.get_running_loop().create_future()
        ones = np.ones(3, dtype=np.float32)
        vector = SparseVector(np.arange(3, dtype=np.int32), ones)
        columns = [TextOutputs(sparse=vector).pack() for _ in job.texts_ids]
        return Result(np.concatenate(columns), 5, 7, 1.0, [*map(len, columns)])


def test_a_comparison_that_needs_too_many_numbers_is_not_computed_to_its_end() -> None:
    pipeline = pipeline_of(StuckEngine(), output_names=(SPARSE,))
    compared = compute_sparse_vectors(
        pipeline, RequestCosts(), [A_TEXT] * 40, num_queries=1, max_values=119
    )
    with pytest.raises(TooLarge, match="needs 120 numbers or more, but the limit is 119"):
        asyncio.run(asyncio.wait_for(compared, 60))
