"""What is done to finished vectors: shortened, normalised, compared, stored in fewer bits."""

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
_LEAST = np.float32(1e-12)
INT8 = "each vector times 127 / its largest absolute component; uint8 is that plus 128"


def normalize(vectors: Floats) -> Floats:
    """Each row divided by its Euclidean length; a row of zeros stays zero: (B, D) -> (B, D)."""
    with np.errstate(over="ignore"):
        lengths = np.sqrt(np.vecdot(vectors, vectors))
    if math.inf in lengths.tolist():  # the squares of what is beyond 1e19 overflow
        huge = np.isinf(lengths)
        vectors = vectors.copy()
        vectors[huge] /= np.abs(vectors[huge]).max(axis=1, keepdims=True)
        lengths = np.sqrt(np.vecdot(vectors, vectors))
    units: Floats = vectors / np.maximum(lengths, _LEAST)[:, None]
    return units


def finish(vectors: Floats, dimensions: int | None, normalized: bool) -> Floats:
    """The first `dimensions` columns (all by default), normalised after the cut if asked."""
    cut = vectors[:, :dimensions]
    return normalize(cut) if normalized else np.ascontiguousarray(cut)


def quantize(vectors: Floats, dtype: str) -> npt.NDArray[np.generic]:
    """(B, D) floats as float32, float16, int8, uint8, binary or ubinary.

    The last two pack eight dimensions into a byte.

    int8 scales each vector so that its largest component is 127, which keeps every cosine and
    needs no calibration set; uint8 is the same plus 128. A bit is set where the component is
    positive, the first dimension in the highest bit; binary is ubinary minus 128, as
    sentence-transformers stores it. What float16 cannot hold (beyond 65504) becomes infinite.
    """
    if dtype == "float32":
        return vectors
    if dtype == "float16":
        with np.errstate(over="ignore"):
            return vectors.astype(np.float16)
    if dtype in ("binary", "ubinary"):
        bits: npt.NDArray[np.uint8] = np.packbits(vectors > 0, axis=1)
        return bits if dtype == "ubinary" else (bits.astype(np.int16) - 128).astype(np.int8)
    peak = np.maximum(np.abs(vectors).max(axis=1, keepdims=True), np.float32(1e-12))
    steps: npt.NDArray[np.int16] = np.rint(vectors * (127 / peak)).astype(np.int16)
    return steps.astype(np.int8) if dtype == "int8" else (steps + 128).astype(np.uint8)


def cosine(a: Floats, b: Floats) -> Floats:
    """The cosine of every row of a with every row of b: (…, A, D), (…, B, D) -> (…, A, B).

    As all metrics, computed in doubles and rounded: so equal rows have equal scores wherever they
    stand, and squares neither overflow nor vanish. A score beyond float32 is infinite.
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
    """Minus the Euclidean distance of every pair, so that larger is closer: -> (…, A, B)."""
    return _pairs(a, b, lambda gap: np.sqrt(np.vecdot(gap, gap)))


def manhattan(a: Floats, b: Floats) -> Floats:
    """Minus the sum of absolute differences of every pair, larger is closer: -> (…, A, B)."""
    return _pairs(a, b, lambda gap: np.abs(gap, out=gap).sum(axis=-1))


METRICS: dict[str, Callable[[Floats, Floats], Floats]] = {
    "cosine": cosine,
    "dot": dot,
    "euclidean": euclidean,
    "manhattan": manhattan,
}


def _lengths(rows: Doubles) -> Doubles:
    found: Doubles = np.sqrt(np.vecdot(rows, rows))
    return np.where(found == 0, 1.0, found)  # the cosine with zeros is zero


def _pairs(a: Floats, b: Floats, distance: Callable[[Doubles], Doubles]) -> Floats:
    # Row by row: the difference of all pairs at once would need A * B * D doubles.
    rows, others = np.split(a, a.shape[-2], axis=-2), b.astype(np.float64)
    found = [(0 - distance(others - row)).astype(np.float32) for row in rows]  # no zero with a sign
    return np.stack(found, axis=-2)
