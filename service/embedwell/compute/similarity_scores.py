"""Similarity scores of vectors, dense or sparse: all pairs, corresponding pairs, or the closest."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import orjson

from embedwell.compute.pipeline import Pipeline
from embedwell.compute.request_limits import RequestCosts, check_response_numbers
from embedwell.compute.work_queue import STEP_OPERATIONS, ComparisonQueue
from embedwell.errors import BadRequest, TooLarge, reindexed
from embedwell_models.outputs.names import SPARSE, SPARSE_QUERY
from embedwell_models.outputs.text_outputs import (
    SparseVector,
    TextOutputs,
    common_entries,
    over_entries,
)
from embedwell_models.read.inputs import InputRow
from embedwell_models.tokenizer.steps import Steps
from embedwell_models.vectors import METRICS, Floats

# How many multiplications of a matrix product take as long, as measured.
_OPERATIONS_PER_SCORE = 256  # serialising one score
_SORTING = 1024  # sorting one score
_SERIALIZING = 8192  # serialising an index and a score
_COSTS = {"euclidean": 32, "manhattan": 32}  # for each dimension of two vectors; others take 1


async def compute_sparse_vectors(
    pipeline: Pipeline,
    costs: RequestCosts,
    rows: Sequence[InputRow],
    *,
    num_queries: int,
    max_values: int,
) -> list[SparseVector]:
    """Return the sparse vectors of rows; the first ones are queries.

    Raises TooLarge as soon as `as_matrix` would need more than max_values numbers.
    """
    of_queries = SPARSE_QUERY if SPARSE_QUERY in pipeline.output_names else SPARSE

    def keep(text: TextOutputs) -> SparseVector:
        assert text.sparse is not None
        _check_matrix(len(rows), len(text.sparse.indices), max_values)
        return text.sparse

    if of_queries == SPARSE:
        return await pipeline.compute_in_parts(costs, rows, [SPARSE], keep)
    first, others = rows[:num_queries], rows[num_queries:]
    queries = await pipeline.compute_in_parts(costs, first, [of_queries], keep)
    with reindexed(range(num_queries, len(rows))):
        documents = await pipeline.compute_in_parts(costs, others, [SPARSE], keep)
    return [*queries, *documents]


def as_matrix(costs: RequestCosts, vectors: Sequence[SparseVector], max_values: int) -> Floats:
    """Write sparse vectors as a dense matrix over all entries that occur: (B, entries).

    Raises TooLarge for more than max_values numbers.
    """
    entries = common_entries(vectors)
    _check_matrix(len(vectors), len(entries), max_values)
    costs.memory.grow_by_numbers(len(vectors) * len(entries))
    return over_entries(vectors, entries)


def _check_matrix(texts: int, entries: int, max_values: int) -> None:
    if texts * entries > max_values:
        raise TooLarge(
            f"comparing {texts} sparse vectors with {entries} different entries or more needs "
            f"{texts * entries} numbers or more, but the limit is {max_values}; compare fewer "
            "texts",
            code="too_many_values",
        )


class ScoreOptions(Protocol):
    """Fields of a SimilarityRequest that select the scores."""

    @property
    def metric(self) -> str: ...
    @property
    def mode(self) -> str: ...
    @property
    def top_k(self) -> int | None: ...


async def similarity_scores(
    a: Floats, b: Floats, options: ScoreOptions, max_values: int, comparisons: ComparisonQueue
) -> Floats | Sequence[orjson.Fragment]:
    """Compute the scores, or with `top_k` the closest entries of b for each a.

    Raises BadRequest for vectors that cannot be compared, TooLarge for more than `max_values`,
    Overloaded if many scores would wait too long, and TimedOut.
    """
    if options.mode == "pairwise":
        check_pairs(len(a), len(b), options)
        operations = len(a) * _operations_per_row(options, 1, a.shape[1])
        return await comparisons.run(_pairwise_scores(options.metric, a, b), operations)
    check_response_numbers(len(a) * len(b), max_values)
    per_row = _operations_per_row(options, *b.shape)
    rows, operations = max(1, STEP_OPERATIONS // per_row), len(a) * per_row
    if options.top_k is None:
        steps = _all_scores(options.metric, a, b, rows)
        return await comparisons.run(steps, operations)
    # An entry is an index and a score.
    check_response_numbers(2 * len(a) * min(options.top_k, len(b)), max_values)
    top = _top_scores(options.metric, a, b, rows, options.top_k)
    return await comparisons.run(top, operations)


def _operations_per_row(options: ScoreOptions, count: int, dim: int) -> int:
    """Return the multiplications that take as long as comparing one vector with `count` others."""
    count = max(count, 1)
    per_score = max(_OPERATIONS_PER_SCORE, dim * _COSTS.get(options.metric, 1))
    if options.top_k is None:
        return count * per_score
    return count * (per_score + _SORTING) + min(options.top_k, count) * _SERIALIZING


def _all_scores(metric: str, a: Floats, b: Floats, rows: int) -> Steps[Floats]:
    """Compute all scores (A, B), some rows in a step."""
    scores = np.empty((len(a), len(b)), dtype=np.float32)
    for start in range(0, len(a), rows):
        scores[start : start + rows] = _score_matrix(metric, a[start : start + rows], b)
        yield
    return scores


def _top_scores(
    metric: str, a: Floats, b: Floats, rows: int, k: int
) -> Steps[list[orjson.Fragment]]:
    """Compute the largest k scores of each row, some rows in a step."""
    top: list[orjson.Fragment] = []
    for start in range(0, len(a), rows):
        top += _top_entries(_score_matrix(metric, a[start : start + rows], b), k)
        yield
    return top


def _pairwise_scores(metric: str, a: Floats, b: Floats) -> Steps[Floats]:
    yield
    return _score_matrix(metric, a[:, None], b[:, None])[:, 0, 0]


def _score_matrix(metric: str, a: Floats, b: Floats) -> Floats:
    """Score every a with every b: (…, A, D), (…, B, D) -> (…, A, B).

    Raises BadRequest if a score overflows float32.
    """
    with np.errstate(over="ignore"):
        scores = METRICS[metric](a, b)
    if not np.isfinite(scores).all():
        raise BadRequest(
            f"a {metric} score overflows float32; normalize the vectors, or use the metric cosine",
            code="not_finite",
            param="metric",
        )
    return scores


def check_pairs(a: int, b: int, options: ScoreOptions) -> None:
    """Raise BadRequest if mode pairwise cannot compare so many entries."""
    if a != b:
        raise BadRequest(
            f"a has {a} entries and b has {b}; mode pairwise needs equal numbers", param="mode"
        )
    if options.top_k is not None:
        raise BadRequest("top_k needs mode matrix", param="top_k")


def _top_entries(scores: Floats, k: int) -> Sequence[orjson.Fragment]:
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return [_entries(indices, row[indices]) for row, indices in zip(scores, order, strict=True)]


def _entries(indices: Any, scores: Floats) -> orjson.Fragment:
    # Serialised immediately, because a million entries would be 300 MB of Python objects.
    pairs = zip(indices.tolist(), scores.tolist(), strict=True)
    return orjson.Fragment(orjson.dumps([{"index": i, "score": score} for i, score in pairs]))
