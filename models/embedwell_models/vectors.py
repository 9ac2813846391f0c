"""Operations on finished vectors: truncation, normalisation, comparison, quantisation."""

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
_MIN_LENGTH = np.float32(1e-12)  # of a vector that is divided by it
INT8 = "each vector times 127 / its largest absolute component; uint8 is that plus 128"


def normalize(vectors: Floats) -> Floats:
    """Divide each row by its Euclidean length; a row of zeros stays zero: (B, D) -> (B, D)."""
    with np.errstate(over="ignore"):
        lengths = np.sqrt(np.vecdot(vectors, vectors))
    if math.inf in lengths.tolist():  # squares of components beyond 1e19 overflow
        huge = np.isinf(lengths)
        vectors = vectors.copy()
        vectors[huge] /= np.abs(vectors[huge]).max(axis=1, keepdims=True)
        lengths = np.sqrt(np.vecdot(vectors, vectors))
    units: Floats = vectors / np.maximum(lengths, _MIN_LENGTH)[:, None]
    return units


def finish(vectors: Floats, dimensions: int | None, normalized: bool) -> Floats:
    """Truncate vectors (B, D) to `dimensions`, and then normalise them if `normalized`.

    dimensions: None for all.
    """
    truncated = vectors[:, :dimensions]
    return normalize(truncated) if normalized else np.ascontiguousarray(truncated)


def quantize(vectors: Floats, dtype: str) -> npt.NDArray[np.generic]:
    """Convert vectors (B, D) to float32, float16, int8, uint8, binary or ubinary.

    float16: numbers beyond 65504 become infinite.
    int8: each vector is scaled so that its largest component is 127, which keeps every cosine and
    needs no calibration set. uint8: int8 plus 128.
    ubinary: a bit for each dimension, 1 where it is positive, the first one in the highest bit of
    the first byte: (B, D / 8). binary: ubinary minus 128, as sentence-transformers stores it.
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
    """The cosine of every row of a with every row of b: (…, A, D), (…, B, D) -> (…, A, B).

    All metrics are computed in double precision and rounded to float32, so that equal rows have
    equal scores in any order, and squares neither overflow nor vanish. A score beyond float32 is
    infinite.
    """
    x, y = a.astype(np.float64), b.astype(np.float64)
    cosines = x @ y.mT
    cosines /= _lengths(x)[..., :, None]
    cosines /= _lengths(y)[..., None, :]
    return np.clip(cosines, -1.0, 1.0, out=cosines).astype(np.float32)


def dot(a: Floats, b: Floats) -> Floats:
    """The inner product of every pair of rows: (…, A, D), (…, B, D) -> (…, A, B)."""
    return (a.astype(np.float64) @ b.astype(np.float64).mT).astype(np.float32)


def euclidean(a: Floats, b: Floats) -> Floats:
    """Minus the Euclidean distance of every pair of rows: larger is closer."""
    return _negative_distances(a, b, lambda x: np.sqrt(np.vecdot(x, x)))


def manhattan(a: Floats, b: Floats) -> Floats:
    """Minus the sum of absolute differences of every pair of rows: larger is closer."""
    return _negative_distances(a, b, lambda x: np.abs(x, out=x).sum(axis=-1))


def maxsim(query: Floats, document: Floats) -> float:
    """The sum over a query's vectors (Q, D) of their largest products with a document's (T, D).

    Khattab and Zaharia 2020, arXiv 2004.12832. A document without vectors has the score 0. Computed
    in double precision, so that no order of the vectors changes a score.
    """
    if not len(document):
        return 0.0
    products = query.astype(np.float64) @ document.astype(np.float64).T
    return float(products.max(axis=1).sum())


METRICS: dict[str, Callable[[Floats, Floats], Floats]] = {
    "cosine": cosine,
    "dot": dot,
    "euclidean": euclidean,
    "manhattan": manhattan,
}


def _lengths(rows: Doubles) -> Doubles:
    lengths: Doubles = np.sqrt(np.vecdot(rows, rows))
    return np.where(lengths == 0, 1.0, lengths)  # the cosine with zeros is zero


def _negative_distances(a: Floats, b: Floats, length: Callable[[Doubles], Doubles]) -> Floats:
    # Row by row: the differences of all pairs at once would need A * B * D doubles. Subtracted from
    # zero, as a negated zero would have a sign.
    rows, others = np.split(a, a.shape[-2], axis=-2), b.astype(np.float64)
    scores = [(0 - length(others - row)).astype(np.float32) for row in rows]
    return np.stack(scores, axis=-2)
