"""Product quantisation of a table: codebooks by k-means, and the codes of its rows.

V rows, D dimensions, M slices of a row, K vectors of a codebook. Jégou et al. 2011, "Product
quantization for nearest neighbor search".
"""

import numpy as np
import numpy.typing as npt

from embedwell_models.errors import ModelError
from embedwell_models.tables.compressed import CODEBOOK_SIZE
from embedwell_models.tables.table import Rows
from embedwell_models.vectors import Floats

_SAMPLE = 1 << 15  # rows that the codebooks are computed from
Codes = npt.NDArray[np.uint8]
_ROUNDS = 20
_PRODUCTS = 1 << 18
"""Multiplications in one matrix product. OpenBLAS starts threads for more, and these take up to a
hundred times as long while other processes compute."""


def product_quantize(rows: Floats, slices: int) -> tuple[Codes, Floats]:
    """Return the codes (V, M) and codebooks (M, K, D / M) that approximate rows (V, D).

    The result is deterministic on one machine. Raises ModelError unless M divides D.
    """
    count, width = rows.shape
    if width % slices:
        divisors = [n for n in range(1, width + 1) if width % n == 0]
        raise ModelError(
            f"{slices} codes do not divide {width} dimensions; choose one of {divisors}"
        )
    generator = np.random.default_rng(0)
    sample = rows
    if count > _SAMPLE:
        sample = rows[np.sort(generator.choice(count, _SAMPLE, replace=False))]
    codes = np.empty((count, slices), np.uint8)
    codebooks = []
    for index in range(slices):
        part = np.ascontiguousarray(sample[:, index::slices])
        codebooks.append(centroids(part, CODEBOOK_SIZE, generator))
        codes[:, index] = nearest_centroids(rows[:, index::slices], codebooks[-1])[0]
    return codes, np.stack(codebooks)


def centroids(rows: Floats, count: int, generator: np.random.Generator) -> Floats:
    """Return at most `count` centroids (K, D) of k-means (Lloyd 1982).

    Up to `count` rows are their own centroids. A centroid without rows moves to one of the rows
    that are farthest from their centroids.
    """
    if len(rows) <= count:
        return rows.copy()
    centers = rows[generator.choice(len(rows), count, replace=False)]
    for _ in range(_ROUNDS):
        nearest, errors = nearest_centroids(rows, centers)
        sizes = np.bincount(nearest, minlength=count)
        sums = [np.bincount(nearest, column, minlength=count) for column in rows.T]
        centers = (np.stack(sums, axis=1) / np.maximum(sizes, 1)[:, None]).astype(np.float32)
        empty = np.flatnonzero(sizes == 0)
        centers[empty] = rows[np.argsort(-errors, kind="stable")[: len(empty)]]
    return centers


def nearest_centroids(rows: Rows, centers: Floats) -> tuple[npt.NDArray[np.int64], Floats]:
    """Return the index of each row's nearest centroid (V,) and the squared distances (V,)."""
    half_squares = np.vecdot(centers, centers) / 2
    nearest, errors = np.empty(len(rows), np.int64), np.empty(len(rows), np.float32)
    size = max(16, _PRODUCTS // centers.size)
    for start in range(0, len(rows), size):
        block = rows[start : start + size]
        # Half of each squared distance, minus a constant of the row.
        distances = half_squares - block @ centers.T
        chosen = distances.argmin(axis=1)
        least = np.take_along_axis(distances, chosen[:, None], axis=1)[:, 0]
        nearest[start : start + size] = chosen
        errors[start : start + size] = 2 * least + np.vecdot(block, block)
    return nearest, errors
