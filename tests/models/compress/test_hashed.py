"""A fitted pool: each half of it is as good as least squares, and more rows lose less."""

import numpy as np
import pytest

from embedwell_models.compress.hashed import Importance, fit_pool
from embedwell_models.errors import ModelError
from embedwell_models.tables.compressed import HashedTable, pool_rows
from tests.models.word_files import vectors

TABLE = vectors(400, 70)


def test_importance_is_that_of_least_squares_by_numpy() -> None:
    pool, importance = fit_pool(TABLE, 60)
    first, second = pool_rows(np.arange(400), 60)
    for id in range(0, 400, 7):
        pair = np.stack([pool[first[id]], pool[second[id]]], axis=1)
        expected = np.linalg.lstsq(pair.astype(float), TABLE[id].astype(float), rcond=None)[0]
        np.testing.assert_allclose(importance[id], expected, atol=1e-3)


def test_as_many_steps_as_rows_of_a_pool_are_least_squares() -> None:
    chosen = np.stack(pool_rows(np.arange(400), 4), axis=1)
    weights = np.random.default_rng(5).normal(size=chosen.shape)
    matrix = np.zeros((400, 4))
    for column in (0, 1):
        matrix[np.arange(400), chosen[:, column]] += weights[:, column]
    actual = Importance(chosen, 4).improve(np.ones((4, 70)), weights, TABLE)
    expected = np.linalg.lstsq(matrix, TABLE.astype(float), rcond=None)[0]
    np.testing.assert_allclose(actual, expected, atol=1e-9)


def test_the_pool_is_nearly_as_good_as_least_squares_by_numpy() -> None:
    pool, importance = fit_pool(TABLE, 60)
    matrix, ids = np.zeros((400, 60)), np.arange(400)
    for rows, weights in zip(pool_rows(ids, 60), importance.T, strict=True):
        matrix[ids, rows] += weights
    best = matrix @ np.linalg.lstsq(matrix, TABLE.astype(float), rcond=None)[0]
    loss = np.square(HashedTable(pool, importance)[:] - TABLE).sum()
    assert loss < 1.02 * np.square(best - TABLE).sum()


def test_more_rows_lose_less() -> None:
    losses = [
        np.square(HashedTable(*fit_pool(TABLE, size))[:] - TABLE).sum()
        for size in (2, 40, 150, 399)
    ]
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < 0.5 * losses[0]


def test_the_same_rows_have_the_same_pool() -> None:
    (pool, importance), (again, weights) = fit_pool(TABLE, 30), fit_pool(TABLE, 30)
    assert (pool.tobytes(), importance.tobytes()) == (again.tobytes(), weights.tobytes())


@pytest.mark.parametrize("size", [1, 400])
def test_a_pool_that_saves_nothing_and_one_without_two_rows_are_refused(size: int) -> None:
    with pytest.raises(ModelError, match=f"a pool of {size} rows for 400: choose 2 to 399"):
        fit_pool(TABLE, size)
