"""Smaller forms of a table: fewer dimensions, 8-bit rows, codes, tiers, or a pool of shared rows.

V rows, D dimensions, M slices of a row, K vectors of a codebook, B rows of a pool.

codes: product quantisation. Jégou et al. 2011, "Product quantization for nearest neighbor search".
tiers: rows of rare words have fewer dimensions. Baevski and Auli 2018 (arXiv 1809.10853), "Adaptive
input representations for neural language modeling".
pool: hash embeddings, fitted by alternating least squares. Svenstrup et al. 2017 (arXiv
1709.03933), "Hash embeddings for efficient word representations".
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from embedwell_classic.compressed_tables import CODEBOOK_SIZE, Ids, Tier, pool_rows
from embedwell_models.checkpoint.tables import DIRECTIONS, TIER, Array, Rows, blocks
from embedwell_models.errors import ModelError
from embedwell_models.vectors import MAX_UNTHREADED_PRODUCT, Doubles, Floats

Codes = npt.NDArray[np.uint8]
Integers8 = npt.NDArray[np.int8]
_CODEBOOK_SAMPLE = 1 << 15  # rows that the codebooks are computed from
_MEANS_ROUNDS = 20
_REST = "rest"
_BAND = re.compile(rf"([1-9]\d*|{_REST}):([1-9]\d*)")
_POOL_ROUNDS = 8
_POOL_STEPS = 4  # steps of conjugate gradients in each round
_POOL_COLUMNS = 64  # columns of the pool that are computed at once
_IMPORTANCE_ROWS = 1 << 14  # rows whose importance is computed at once
_RIDGE = 1e-6  # fraction of the mean square; keeps the weights of parallel rows small


def principal_directions(table: Rows, dimensions: int) -> Floats:
    """Return the directions with the largest sums of squares: (D, dimensions), orthonormal.

    Among projections to as many dimensions, this one preserves inner products best (Eckart and
    Young 1936). The mean is not subtracted. Raises ModelError for more dimensions than the table
    has.
    """
    width = table[:1].shape[1]
    if not 0 < dimensions <= width:
        raise ModelError(f"{dimensions} dimensions are not possible; the table has {width}")
    products: Doubles = np.zeros((width, width))
    for block in blocks(table):
        doubles = block.astype(np.float64)
        products += doubles.T @ doubles
    directions = np.linalg.eigh(products).eigenvectors[:, ::-1]
    first: Floats = directions[:, :dimensions].astype(np.float32)
    return first


def quantize_rows(rows: Floats) -> tuple[Integers8, Floats]:
    """Quantise rows (V, D) to integers (V, D) and scales (V,): the largest absolute value / 127."""
    scales = np.abs(rows).max(axis=1, initial=0) / np.float32(127)
    divisors = np.where(scales == 0, np.float32(1), scales)
    return np.rint(rows / divisors[:, None]).astype(np.int8), scales.astype(np.float32)


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
    if count > _CODEBOOK_SAMPLE:
        sample = rows[np.sort(generator.choice(count, _CODEBOOK_SAMPLE, replace=False))]
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
    for _ in range(_MEANS_ROUNDS):
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
    size = max(16, MAX_UNTHREADED_PRODUCT // centers.size)
    for start in range(0, len(rows), size):
        block = rows[start : start + size]
        # Half of each squared distance, minus a constant of the row.
        distances = half_squares - block @ centers.T
        chosen = distances.argmin(axis=1)
        least = np.take_along_axis(distances, chosen[:, None], axis=1)[:, 0]
        nearest[start : start + size] = chosen
        errors[start : start + size] = 2 * least + np.vecdot(block, block)
    return nearest, errors


@dataclass(frozen=True)
class Band:
    """Number of rows of one tier (None for all remaining rows) and their dimensions."""

    rows: int | None
    dimensions: int


def parse_bands(text: str) -> list[Band]:
    """Parse tiers such as `20000:300,50000:100,rest:25`, each ROWS:DIMENSIONS.

    Raises ModelError for another text. Only the last tier is `rest`.
    """
    matches = [_BAND.fullmatch(part.strip()) for part in text.split(",")]
    pairs = [match.groups() for match in matches if match]
    is_rest = [rows == _REST for rows, _ in pairs]
    if len(pairs) < len(matches) or is_rest != [False] * (len(pairs) - 1) + [True]:
        raise ModelError(f"{text!r} is not a list of tiers: write 20000:300,50000:100,rest:25")
    return [Band(None if rows == _REST else int(rows), int(size)) for rows, size in pairs]


def split_rows(rows: Floats, bands: Sequence[Band]) -> list[Tier]:
    """Split rows (V, D) into tiers.

    The directions of a tier are the principal directions of its rows. A tier that keeps all
    dimensions has no directions, and its rows stay as they are. Tiers after the last row are left
    out. Raises ModelError for more dimensions than the rows have.
    """
    tiers: list[Tier] = []
    start = 0
    for band in bands:
        stop = len(rows) if band.rows is None else min(start + band.rows, len(rows))
        part, start = rows[start:stop], stop
        if not len(part):
            continue
        if band.dimensions == rows.shape[1]:
            tiers.append(Tier(part, None))
            continue
        directions = principal_directions(part, band.dimensions)
        values = np.concatenate([block @ directions for block in blocks(part)])
        tiers.append(Tier(values, np.ascontiguousarray(directions.T)))
    return tiers


def as_parts(tiers: Sequence[Tier]) -> dict[str, Array]:
    """Return the stored parts of a table of tiers, by our names."""
    parts: dict[str, Array] = {}
    for index, tier in enumerate(tiers):
        parts[f"{TIER}{index}"] = np.ascontiguousarray(tier.values)
        if tier.directions is not None:
            parts[f"{DIRECTIONS}{index}"] = tier.directions
    return parts


def fit_pool(rows: Floats, size: int) -> tuple[Floats, Floats]:
    """Return a pool (B, D) and weights (V, 2) whose weighted sums approximate rows (V, D).

    The weights are called importance in the paper. Each round improves the pool for fixed weights,
    then computes the best weights for this pool. The result is deterministic on one machine. Raises
    ModelError unless 2 <= B < V.
    """
    if not 2 <= size < len(rows):
        raise ModelError(f"a pool of {size} rows for {len(rows)}: choose 2 to {len(rows) - 1}")
    chosen = np.stack(pool_rows(np.arange(len(rows)), size), axis=1)
    importance = np.random.default_rng(0).choice(np.array([-1.0, 1.0]), chosen.shape)
    pool = np.zeros((size, rows.shape[1]))
    products = Importance(chosen, size)
    for _ in range(_POOL_ROUNDS):
        for start in range(0, rows.shape[1], _POOL_COLUMNS):
            columns = slice(start, start + _POOL_COLUMNS)
            pool[:, columns] = products.improve(pool[:, columns], importance, rows[:, columns])
        for start in range(0, len(rows), _IMPORTANCE_ROWS):
            part = slice(start, start + _IMPORTANCE_ROWS)
            importance[part] = _best_importance(pool[chosen[part]], rows[part])
    return pool.astype(np.float32), importance.astype(np.float32)


class Importance:
    """Products with the sparse matrix of importance (V, B). chosen: (V, 2) indices of pool rows."""

    def __init__(self, chosen: Ids, size: int) -> None:
        self._chosen, self._size = chosen, size
        flat = chosen.T.ravel()
        self._order = np.argsort(flat, kind="stable")
        self._used, self._starts = np.unique(flat[self._order], return_index=True)

    def improve(self, pool: Doubles, importance: Doubles, rows: Floats) -> Doubles:
        """Return a pool (B, C) that approximates rows (V, C) better, by conjugate gradients.

        Hestenes and Stiefel 1952, applied to the normal equations of each column.
        """
        residual = self._back(importance, rows - self._forth(importance, pool))
        direction, squares = residual, np.square(residual).sum(axis=0)
        for _ in range(_POOL_STEPS):
            forth = self._forth(importance, direction)
            steps = squares / np.maximum(np.square(forth).sum(axis=0), np.finfo(float).tiny)
            pool = pool + steps * direction
            residual = residual - steps * self._back(importance, forth)
            before, squares = squares, np.square(residual).sum(axis=0)
            direction = residual + squares / np.maximum(before, np.finfo(float).tiny) * direction
        return pool

    def _forth(self, importance: Doubles, pool: Doubles) -> Doubles:
        first, second = self._chosen.T
        product: Doubles = importance[:, :1] * pool[first] + importance[:, 1:] * pool[second]
        return product

    def _back(self, importance: Doubles, rows: Doubles) -> Doubles:
        weighted = np.concatenate([importance[:, :1] * rows, importance[:, 1:] * rows])
        pool: Doubles = np.zeros((self._size, rows.shape[1]))
        pool[self._used] = np.add.reduceat(weighted[self._order], self._starts, axis=0)
        return pool


def _best_importance(pairs: Doubles, rows: Floats) -> Doubles:
    # Least squares with two unknowns for each row: pairs (n, 2, D), rows (n, D) -> (n, 2).
    products = pairs @ pairs.swapaxes(1, 2)
    ridge = _RIDGE * np.trace(products, axis1=1, axis2=2) + np.finfo(float).tiny
    products += ridge[:, None, None] * np.eye(2)
    targets = (pairs @ rows[:, :, None])[:, :, 0]
    (a, b), (_, d) = products.transpose(1, 2, 0)
    first, second = targets.T
    determinant = a * d - b * b
    best: Doubles = np.stack([d * first - b * second, a * second - b * first], axis=1)
    best /= determinant[:, None]
    return best
