"""Similarity scores of vectors: all pairs, corresponding pairs, or the closest."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np
import orjson

from embedwell.errors import BadRequest
from embedwell.request.limits import check_response_numbers
from embedwell.request.run_in_thread import FEW_OPERATIONS, run_in_thread
from embedwell_models.vectors import METRICS, Floats

_OPERATIONS_PER_SCORE = 256  # these take as long as serialising one score


class ScoreOptions(Protocol):
    """Fields of a SimilarityRequest that select the scores."""

    @property
    def metric(self) -> str: ...
    @property
    def mode(self) -> str: ...
    @property
    def top_k(self) -> int | None: ...


async def similarity_scores(
    a: Floats, b: Floats, options: ScoreOptions, max_values: int
) -> dict[str, Any]:
    """Compute the response's `scores` or `top`, in a thread if they are many.

    Raises BadRequest for vectors that cannot be compared, TooLarge for more than `max_values`.
    """
    work = partial(_compute, a, b, options, max_values)
    small = len(a) * len(b) * max(a.shape[1], _OPERATIONS_PER_SCORE) <= FEW_OPERATIONS
    return await run_in_thread(work, small)


def _compute(a: Floats, b: Floats, options: ScoreOptions, max_values: int) -> dict[str, Any]:
    if options.mode == "pairwise":
        return {"scores": _pairwise_scores(a, b, options)}
    check_response_numbers(len(a) * len(b), max_values)
    if options.top_k is None:
        return {"scores": _score_matrix(options.metric, a, b)}
    numbers = 2 * len(a) * min(options.top_k, len(b))  # an index and a score each
    check_response_numbers(numbers, max_values)
    return {"top": _top_entries(_score_matrix(options.metric, a, b), options.top_k)}


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


def _pairwise_scores(a: Floats, b: Floats, options: ScoreOptions) -> Floats:
    if len(a) != len(b):
        raise BadRequest(
            f"a has {len(a)} entries and b has {len(b)}; mode pairwise needs equal numbers",
            param="mode",
        )
    if options.top_k is not None:
        raise BadRequest("top_k needs mode matrix", param="top_k")
    return _score_matrix(options.metric, a[:, None], b[:, None])[:, 0, 0]


def _top_entries(scores: Floats, k: int) -> Sequence[orjson.Fragment]:
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return [_entries(indices, row[indices]) for row, indices in zip(scores, order, strict=True)]


def _entries(indices: Any, scores: Floats) -> orjson.Fragment:
    # Serialised immediately, because a million entries would be 300 MB of Python objects.
    pairs = zip(indices.tolist(), scores.tolist(), strict=True)
    return orjson.Fragment(orjson.dumps([{"index": i, "score": score} for i, score in pairs]))
