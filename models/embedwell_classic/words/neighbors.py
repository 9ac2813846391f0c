"""Exact search for the nearest rows of a table, by matrix products over blocks of rows.

Q query vectors, N rows, D dimensions, S lists of neighbours.
"""

from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import numpy.typing as npt

from embedwell_models.checkpoint.tables import BLOCK, Rows
from embedwell_models.vectors import METRICS, Doubles, Floats, normalize

_SPARE = 32  # further neighbours that are scored again in double precision
_LEAST = 1e-6  # added to a divisor, as in gensim


@dataclass(frozen=True)
class Question:
    """A query for S lists of neighbours.

    rank: computes fast scores (S, N) from rows (N, D) and their lengths (N,); their order is that
    of `score` except for rounding. score: computes scores (N,) from the index of a list and rows
    (N, D); larger is closer. excluded: for each list, the rows that are left out.
    """

    rank: Callable[[Floats, Floats], Floats]
    score: Callable[[int, Floats], Floats]
    excluded: Sequence[Collection[int]]


Neighbors = list[tuple[int, float]]
"""Rows with their scores, the best first; rows with equal scores keep their order."""


@dataclass
class NeighborTable:
    """A table of vectors (N, D) that is searched, and the text of each row."""

    table: Rows
    text: Callable[[int], str]
    _row_lengths: Floats | None = field(default=None, init=False)

    def nearest(self, question: Question, k: int) -> Generator[None, None, list[Neighbors]]:
        """Return the k nearest rows for each list of a question, in steps."""
        if self._row_lengths is None:
            self._row_lengths = yield from _lengths(self.table)
        return (yield from _nearest(self.table, self._row_lengths, question, k))


def _lengths(table: Rows) -> Generator[None, None, Floats]:
    # The Euclidean length of each row (N,), in steps; rows of zeros get the length 1.
    parts = []
    for _, block in _blocks(table):
        parts.append(np.sqrt(np.vecdot(block, block)))
        yield
    values = np.concatenate(parts)
    positive: Floats = np.where(values == 0, np.float32(1), values)
    return positive


def _nearest(
    table: Rows, row_lengths: Floats, question: Question, k: int
) -> Generator[None, None, list[Neighbors]]:
    wanted = k + _SPARE + max(map(len, question.excluded))
    best_rows, best_ranks = np.empty((0, 0), np.int64), np.empty((0, 0), np.float32)
    for start, block in _blocks(table):
        ranks = question.rank(block, row_lengths[start : start + len(block)])
        rows, ranks = _largest(ranks, wanted)
        rows += start
        if best_rows.size:
            rows, ranks = np.hstack([best_rows, rows]), np.hstack([best_ranks, ranks])
            places, ranks = _largest(ranks, wanted)
            rows = np.take_along_axis(rows, places, axis=1)
        best_rows, best_ranks = rows, ranks
        yield
    lists = []
    for index, (rows, excluded) in enumerate(zip(best_rows, question.excluded, strict=True)):
        lists.append(_scored(table, question, index, [*{*rows.tolist()} - {*excluded}], k))
        yield
    return lists


def by_metric(metric: str, vectors: Floats, excluded: Sequence[Collection[int]]) -> Question:
    """Build the query for neighbours of each vector (Q, D). metric: cosine, dot or euclidean."""
    return Question(
        partial(_RANKS[metric], vectors),
        lambda index, rows: METRICS[metric](vectors[index : index + 1], rows)[0],
        excluded,
    )


def add_analogy(positive: Floats, negative: Floats, excluded: Collection[int]) -> Question:
    """Build the query of an analogy from positive and negative vectors (P, D): 3CosAdd.

    The score is the cosine with the sum of the positive minus the negative unit vectors. Mikolov et
    al. 2013, "Linguistic regularities in continuous space word representations".
    """
    units = normalize(np.concatenate([positive, -negative]))
    return by_metric("cosine", units.mean(axis=0, keepdims=True), [excluded])


def multiply_analogy(positive: Floats, negative: Floats, excluded: Collection[int]) -> Question:
    """Build the query of an analogy by products of cosines, which are shifted to 0 to 1: 3CosMul.

    Levy and Goldberg 2014, "Linguistic regularities in sparse and explicit word representations".
    """
    vectors = np.concatenate([positive, negative])
    ratio = partial(_ratio, len(positive))
    return Question(
        lambda rows, row_lengths: ratio(_rank_cosine(vectors, rows, row_lengths))[None],
        lambda _, rows: ratio(METRICS["cosine"](vectors, rows).astype(np.float64)),
        [excluded],
    )


def doesnt_match(vectors: Floats) -> Floats:
    """Return the cosine of each vector with the mean of all unit vectors: (N, D) -> (N,).

    The vector with the lowest cosine does not match the others, as in gensim.
    """
    mean = normalize(vectors).mean(axis=0, keepdims=True)
    cosines: Floats = METRICS["cosine"](mean, vectors)[0]
    return cosines


def _blocks(table: Rows) -> Iterator[tuple[int, Floats]]:
    for start in range(0, len(table), BLOCK):
        yield start, table[start : min(start + BLOCK, len(table))]


def _largest(values: Floats, count: int) -> tuple[npt.NDArray[np.int64], Floats]:
    # Indices of the largest values of each row, unordered, and these values.
    if values.shape[1] <= count:
        places = np.broadcast_to(np.arange(values.shape[1]), values.shape).copy()
    else:
        places = np.argpartition(values, -count, axis=1)[:, -count:]
    return places, np.take_along_axis(values, places, axis=1)


def _scored(
    table: Rows, question: Question, index: int, candidates: list[int], k: int
) -> Neighbors:
    rows = np.array(sorted(candidates), dtype=np.int64)
    if not rows.size:
        return []
    scores = question.score(index, table[rows])
    order = np.argsort(-scores, kind="stable")[:k]
    return list(zip(rows[order].tolist(), scores[order].tolist(), strict=True))


def _rank_cosine(vectors: Floats, rows: Floats, row_lengths: Floats) -> Floats:
    cosines: Floats = normalize(vectors) @ rows.T
    cosines /= row_lengths
    return cosines


def _rank_dot(vectors: Floats, rows: Floats, row_lengths: Floats) -> Floats:
    products: Floats = vectors @ rows.T
    return products


def _rank_euclidean(vectors: Floats, rows: Floats, row_lengths: Floats) -> Floats:
    scores: Floats = vectors @ rows.T
    scores -= np.square(row_lengths) / 2
    return scores


_RANKS = {"cosine": _rank_cosine, "dot": _rank_dot, "euclidean": _rank_euclidean}


def _ratio(positives: int, cosines: Floats | Doubles) -> Floats:
    shifted = (1 + cosines) / 2
    products = shifted[:positives].prod(axis=0) / (shifted[positives:].prod(axis=0) + _LEAST)
    scores: Floats = products.astype(np.float32)
    return scores
