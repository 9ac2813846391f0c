"""Hash embeddings of a table: a pool of shared rows, fitted by alternating least squares.

V rows of the table, D dimensions, B rows of the pool. Svenstrup et al. 2017 (arXiv 1709.03933),
"Hash embeddings for efficient word representations".
"""

import numpy as np

from embedwell_models.errors import ModelError
from embedwell_models.tables.compressed import Ids, pool_rows
from embedwell_models.vectors import Doubles, Floats

_ROUNDS = 8
_STEPS = 4  # steps of conjugate gradients in each round
_COLUMNS = 64  # columns of the pool that are computed at once
_ROWS = 1 << 14  # rows whose importance is computed at once
_RIDGE = 1e-6  # fraction of the mean square; keeps the weights of parallel rows small


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
    for _ in range(_ROUNDS):
        for start in range(0, rows.shape[1], _COLUMNS):
            columns = slice(start, start + _COLUMNS)
            pool[:, columns] = products.improve(pool[:, columns], importance, rows[:, columns])
        for start in range(0, len(rows), _ROWS):
            part = slice(start, start + _ROWS)
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
        for _ in range(_STEPS):
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
