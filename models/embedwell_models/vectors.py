"""Finished vectors: truncation to allowed dimensions, normalisation, comparison, quantisation."""

import math
from collections.abc import Callable, Collection, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from embedwell_models.errors import DimensionsError, ModelError, TooManyDimensionsError

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
TokenIds = Sequence[int] | npt.NDArray[np.integer]
"""Token ids of a text."""
MAX_UNTHREADED_PRODUCT = 1 << 18
"""Most multiplications of a matrix product that OpenBLAS computes in the thread that asks for it.

For more, it starts threads. They then wait in a loop, and take processors from the kernels.
"""
_MIN_LENGTH = np.float32(1e-12)  # minimum divisor of a vector
_MIN_WEIGHT = 1e-12  # of a block of a list whose documents are all opposite to the query
INT8 = "each vector times 127 / its largest absolute component; uint8 is that plus 128"


def normalize(vectors: Floats) -> Floats:
    """Divide each row by its Euclidean length; a row of zeros stays zero: (B, D) -> (B, D)."""
    with np.errstate(over="ignore"):
        lengths = np.sqrt(np.vecdot(vectors, vectors))
    if math.inf in lengths.tolist():  # the square of a component beyond 1e19 overflows
        huge = np.isinf(lengths)
        vectors = vectors.copy()
        vectors[huge] /= np.abs(vectors[huge]).max(axis=1, keepdims=True)
        lengths = np.sqrt(np.vecdot(vectors, vectors))
    units: Floats = vectors / np.maximum(lengths, _MIN_LENGTH)[:, None]
    return units


def truncate_and_normalize(vectors: Floats, dimensions: int | None, normalized: bool) -> Floats:
    """Truncate vectors (B, D) to `dimensions`, then normalise them if `normalized`.

    dimensions: None for all.
    """
    truncated = vectors[:, :dimensions]
    return normalize(truncated) if normalized else np.ascontiguousarray(truncated)


def quantize(vectors: Floats, dtype: str) -> npt.NDArray[np.generic]:
    """Convert vectors (B, D) to float32, float16, int8, uint8, binary or ubinary.

    float16: numbers beyond 65504 become infinite.
    int8: each vector is scaled so that its largest component is 127. This keeps every cosine and
    needs no calibration set. uint8: int8 plus 128.
    ubinary: a bit for each dimension, 1 if it is positive; the first dimension is the highest bit
    of the first byte: (B, D / 8). binary: ubinary minus 128, as in sentence-transformers.
    """
    if dtype == "float32":
        return vectors
    if dtype == "float16":
        with np.errstate(over="ignore"):
            return vectors.astype(np.float16)
    if dtype in ("binary", "ubinary"):
        bits: npt.NDArray[np.uint8] = np.packbits(vectors > 0, axis=1)
        return bits if dtype == "ubinary" else (bits.astype(np.int16) - 128).astype(np.int8)
    largest = np.maximum(np.abs(vectors).max(axis=1, keepdims=True), np.float32(1e-12))
    rounded: npt.NDArray[np.int16] = np.rint(vectors * (127 / largest)).astype(np.int16)
    return rounded.astype(np.int8) if dtype == "int8" else (rounded + 128).astype(np.uint8)


def cosine(a: Floats, b: Floats) -> Floats:
    """Return the cosine of every pair of rows: (…, A, D), (…, B, D) -> (…, A, B).

    All metrics are computed in double precision and rounded to float32, so that equal rows have
    equal scores in any order, and squares neither overflow nor vanish. A score beyond float32 is
    infinite.
    """
    x, y = a.astype(np.float64), b.astype(np.float64)
    cosines = x @ y.mT
    cosines /= _divisors(x)[..., :, None]
    cosines /= _divisors(y)[..., None, :]
    return np.clip(cosines, -1.0, 1.0, out=cosines).astype(np.float32)


def dot(a: Floats, b: Floats) -> Floats:
    """Return the inner product of every pair of rows: (…, A, D), (…, B, D) -> (…, A, B)."""
    return (a.astype(np.float64) @ b.astype(np.float64).mT).astype(np.float32)


def euclidean(a: Floats, b: Floats) -> Floats:
    """Return minus the Euclidean distance of every pair of rows: larger is closer."""
    return _negative_distances(a, b, lambda x: np.sqrt(np.vecdot(x, x)))


def manhattan(a: Floats, b: Floats) -> Floats:
    """Return minus the sum of absolute differences of every pair of rows: larger is closer."""
    return _negative_distances(a, b, lambda x: np.abs(x, out=x).sum(axis=-1))


def maxsim(query: Floats, document: Floats) -> float:
    """Sum, over a query's vectors (Q, D), the largest product with a document's vectors (T, D).

    Khattab and Zaharia 2020, arXiv 2004.12832. A document without vectors has the score 0. The
    computation is in double precision, so that the order of the vectors does not change a score.
    """
    if not len(document):
        return 0.0
    products = query.astype(np.float64) @ document.astype(np.float64).T
    return float(products.max(axis=1).sum())


def listwise_scores(blocks: Sequence[Floats]) -> Floats:
    """Score the documents of a listwise reranker by the cosine with the query: (B,).

    blocks: for each, the vectors of its documents and then that of the query, (documents + 1, D).
    The vector of the query is the mean of all blocks, in which one of a better best score has more
    weight.
    """
    best = [cosine(block[-1:], block[:-1]).max() for block in blocks]
    queries = np.array([block[-1] for block in blocks], dtype=np.float64)
    weights = np.maximum((1 + np.array(best, dtype=np.float64)) / 2, _MIN_WEIGHT)
    query = np.average(queries, axis=0, weights=weights)
    documents = np.concatenate([block[:-1] for block in blocks])
    scores: Floats = cosine(query[None].astype(np.float32), documents)[0]
    return scores


METRICS: dict[str, Callable[[Floats, Floats], Floats]] = {
    "cosine": cosine,
    "dot": dot,
    "euclidean": euclidean,
    "manhattan": manhattan,
}


def _divisors(rows: Doubles) -> Doubles:
    # The lengths of rows.
    lengths: Doubles = np.sqrt(np.vecdot(rows, rows))
    return np.where(lengths == 0, 1.0, lengths)  # the cosine with a zero vector is zero


def _negative_distances(a: Floats, b: Floats, length: Callable[[Doubles], Doubles]) -> Floats:
    # Row by row, because the differences of all pairs would need A * B * D doubles. The sum is
    # subtracted from zero, because a negated zero would have a sign.
    rows, others = np.split(a, a.shape[-2], axis=-2), b.astype(np.float64)
    scores = [(0 - length(others - row)).astype(np.float32) for row in rows]
    return np.stack(scores, axis=-2)


_REMEDY = 'Embedder.load(..., dimensions="any") allows more'


class AllowedDimensions:
    """The dimensions that the model declares (Matryoshka) or the user allows.

    Truncated vectors are of little use unless the model was trained for them.
    """

    def __init__(self, full: int, allowed: Collection[int]) -> None:
        """full: dimensions of the model's vectors."""
        self.full, self._allowed = full, allowed

    @classmethod
    def from_setting(
        cls, setting: str, full: int, declared: Collection[int]
    ) -> "AllowedDimensions":
        """Parse the setting: 'declared', 'any', 'none', or comma-separated numbers.

        Raises ModelError for others, and for a number that is not between 1 and `full`.
        """
        named = {"declared": declared, "any": range(1, full + 1), "none": ()}
        if setting in named:
            return cls(full, named[setting])
        try:
            numbers = sorted({int(number) for number in setting.split(",")})
        except ValueError:
            raise ModelError(
                f"dimensions: {setting!r} is not declared, any, none, or numbers such as 256,512"
            ) from None
        for number in numbers:
            if not 1 <= number <= full:
                raise ModelError(
                    f"dimensions: {number} is not between 1 and {full}, the model's dimensions"
                )
        return cls(full, numbers)

    @property
    def allowed(self) -> Literal["any"] | list[int]:
        """The dimensions below `full` to which vectors may be truncated."""
        return "any" if isinstance(self._allowed, range) else [*self._allowed]

    def check(
        self, requested: int | None, param: str = "dimensions", remedy: str = _REMEDY
    ) -> None:
        """Raise DimensionsError for dimensions that are not offered.

        param: name of the argument. remedy: what would allow other dimensions.
        """
        if requested is None or requested == self.full:
            return
        if requested < 1:
            raise DimensionsError(f"{param} is {requested}, but a vector has one or more")
        if requested > self.full:
            raise TooManyDimensionsError(
                f"{param} is {requested}, but the model has {self.full}; leave it out for all"
            )
        if requested not in self._allowed:
            offered = ", ".join(map(str, self._allowed)) or "no shorter ones"
            raise DimensionsError(
                f"vectors with {requested} dimensions are not offered: this model has "
                f"{self.full} and {offered}; {remedy}"
            )
