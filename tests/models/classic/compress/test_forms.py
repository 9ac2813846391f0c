"""Tests of the smaller forms of a table, against numpy and scikit-learn."""

import numpy as np
import pytest
from sklearn.cluster import KMeans  # type: ignore[import-untyped]

from embedwell_classic.compress.forms import (
    Band,
    Importance,
    as_parts,
    centroids,
    fit_pool,
    nearest_centroids,
    parse_bands,
    principal_directions,
    product_quantize,
    quantize_rows,
    split_rows,
)
from embedwell_classic.compressed_tables import CodedTable, HashedTable, pool_rows
from embedwell_models.checkpoint import tables
from embedwell_models.errors import ModelError
from embedwell_models.vectors import Floats
from tests.models.word_files import vectors

CODED = vectors(3000, 12)


def loss(slices: int) -> float:
    """Mean square of the error of the codes."""
    return float(np.square(CodedTable(*product_quantize(CODED, slices))[:] - CODED).mean())


def test_each_code_is_that_of_the_nearest_vector() -> None:
    codes, codebooks = product_quantize(CODED, 4)
    assert codes.shape == (3000, 4) and codes.dtype == np.uint8
    assert codebooks.shape == (4, 256, 3) and codebooks.dtype == np.float32
    for index, codebook in enumerate(codebooks):
        parts = CODED[:, index::4]
        distances = np.square(parts[:, None].astype(float) - codebook[None]).sum(axis=2)
        chosen = np.take_along_axis(distances, codes[:, index, None].astype(int), axis=1)[:, 0]
        np.testing.assert_allclose(chosen, distances.min(axis=1), atol=1e-6)


def test_more_codes_lose_less() -> None:
    losses = [loss(slices) for slices in (1, 3, 6, 12)]
    assert losses == sorted(losses, reverse=True)
    assert losses[0] > 0.03 and losses[-1] < 1e-4


def test_the_same_rows_have_the_same_codes() -> None:
    many = vectors(40_000, 4)  # more than codebooks are made of
    (codes, codebooks), (again, others) = product_quantize(many, 2), product_quantize(many, 2)
    assert (codes.tobytes(), codebooks.tobytes()) == (again.tobytes(), others.tobytes())


@pytest.mark.parametrize("count", [1, 200, 256])
def test_rows_that_are_no_more_than_codes_stay_as_they_are(count: int) -> None:
    rows: Floats = CODED[:count]
    codes, codebooks = product_quantize(rows, 3)
    assert codebooks.shape == (3, count, 4)
    np.testing.assert_array_equal(CodedTable(codes, codebooks)[:], rows)


def test_a_number_that_divides_no_dimensions_is_refused() -> None:
    with pytest.raises(
        ModelError, match=r"do not divide 12 dimensions; choose one of \[1, 2, 3, 4, 6"
    ):
        product_quantize(CODED, 5)


ROWS = vectors(6000, 3)


def test_centroids_are_about_as_good_as_those_of_scikit_learn() -> None:
    centers = centroids(ROWS, 20, np.random.default_rng(0))
    nearest, errors = nearest_centroids(ROWS, centers)
    np.testing.assert_allclose(errors, np.square(ROWS - centers[nearest]).sum(axis=1), atol=1e-5)
    theirs = KMeans(20, n_init=1, random_state=0).fit(ROWS)
    assert errors.sum() < 1.05 * theirs.inertia_


def test_a_centroid_without_rows_moves_to_rows_that_are_far() -> None:
    places = np.arange(1, 17, dtype=np.float32).reshape(8, 2)
    rows = np.repeat(places, 50, axis=0)  # so that some of the first choices are alike
    centers = centroids(rows, 8, np.random.default_rng(0))
    np.testing.assert_allclose(centers[np.argsort(centers[:, 0])], places, atol=1e-4)


SORTED = vectors(40_000, 12) * np.linspace(0.1, 2, 12, dtype=np.float32)


def test_the_projection_is_that_of_a_singular_value_decomposition() -> None:
    directions = principal_directions(SORTED, 5)
    expected = np.linalg.svd(SORTED.astype(np.float64), full_matrices=False)[2][:5].T
    np.testing.assert_allclose(directions @ directions.T, expected @ expected.T, atol=1e-5)
    np.testing.assert_allclose(directions.T @ directions, np.eye(5), atol=1e-5)


def test_all_dimensions_keep_every_inner_product() -> None:
    rows = SORTED[:50] @ principal_directions(SORTED, 12)
    np.testing.assert_allclose(rows @ rows.T, SORTED[:50] @ SORTED[:50].T, atol=1e-5)


def test_more_dimensions_than_the_table_has_are_refused() -> None:
    with pytest.raises(ModelError, match="13 dimensions are not possible; the table has 12"):
        principal_directions(SORTED, 13)


def test_a_row_is_rounded_to_a_127th_of_its_largest_value() -> None:
    rows = np.concatenate([SORTED[:100], np.zeros((1, 12), np.float32)])
    integers, scales = quantize_rows(rows)
    assert np.abs(integers).max(axis=1).tolist() == [127] * 100 + [0]
    errors = np.abs(integers * scales[:, None] - rows).max(axis=1)
    assert (errors <= scales * 0.5 + 1e-6).all()


BANDED = vectors(300, 12) * np.linspace(0.1, 2, 12, dtype=np.float32)


def decoded(text: str) -> Floats:
    """Split rows into tiers and decode them."""
    rows: Floats = tables.build(as_parts(split_rows(BANDED, parse_bands(text))))[:]
    return rows


def test_a_band_is_projected_to_its_own_first_singular_vectors() -> None:
    actual = decoded("100:12,150:5,rest:2")
    np.testing.assert_array_equal(actual[:100], BANDED[:100])
    for rows, dimensions in ((slice(100, 250), 5), (slice(250, 300), 2)):
        band = BANDED[rows].astype(np.float64)
        first = np.linalg.svd(band, full_matrices=False)[2][:dimensions]
        coordinates = np.linalg.lstsq(first.T, band.T, rcond=None)[0]
        np.testing.assert_allclose(actual[rows], (first.T @ coordinates).T, atol=1e-5)


def test_more_dimensions_lose_less() -> None:
    losses = [np.square(decoded(f"50:9,rest:{size}") - BANDED).sum() for size in (2, 4, 8, 11)]
    assert losses == sorted(losses, reverse=True)


def test_bands_after_the_last_row_are_left_out() -> None:
    tiers = split_rows(BANDED, parse_bands("200:12,200:3,rest:1"))
    assert [tier.values.shape for tier in tiers] == [(200, 12), (100, 3)]


def test_a_row_is_the_same_bits_whatever_is_read_with_it() -> None:
    table = tables.build(as_parts(split_rows(BANDED, parse_bands("20:12,60:11,rest:7"))))
    everything, shuffled = table[:], np.random.default_rng(0).permutation(len(BANDED))
    for size in (1, 2, 7, 64, 300):
        chosen = shuffled[:size]
        assert table[chosen].tobytes() == everything[chosen].tobytes()
    assert table[15:95].tobytes() == everything[15:95].tobytes()


@pytest.mark.parametrize(
    "text", ["20:12", "rest:2,20:3", "a:3,rest:1", "20,rest:2", "", "0:2,rest:1"]
)
def test_other_texts_are_no_bands(text: str) -> None:
    with pytest.raises(ModelError, match="is not a list of tiers: write 20000:300"):
        parse_bands(text)
    assert parse_bands("20:12, rest:2") == [Band(20, 12), Band(None, 2)]


def test_a_tier_of_more_dimensions_than_the_table_is_refused() -> None:
    with pytest.raises(ModelError, match="13 dimensions are not possible; the table has 12"):
        decoded("10:13,rest:2")


SHARED = vectors(400, 70)


def test_importance_is_that_of_least_squares_by_numpy() -> None:
    pool, importance = fit_pool(SHARED, 60)
    first, second = pool_rows(np.arange(400), 60)
    for id in range(0, 400, 7):
        pair = np.stack([pool[first[id]], pool[second[id]]], axis=1)
        expected = np.linalg.lstsq(pair.astype(float), SHARED[id].astype(float), rcond=None)[0]
        np.testing.assert_allclose(importance[id], expected, atol=1e-3)


def test_as_many_steps_as_rows_of_a_pool_are_least_squares() -> None:
    chosen = np.stack(pool_rows(np.arange(400), 4), axis=1)
    weights = np.random.default_rng(5).normal(size=chosen.shape)
    matrix = np.zeros((400, 4))
    for column in (0, 1):
        matrix[np.arange(400), chosen[:, column]] += weights[:, column]
    actual = Importance(chosen, 4).improve(np.ones((4, 70)), weights, SHARED)
    expected = np.linalg.lstsq(matrix, SHARED.astype(float), rcond=None)[0]
    np.testing.assert_allclose(actual, expected, atol=1e-9)


def test_the_pool_is_nearly_as_good_as_least_squares_by_numpy() -> None:
    pool, importance = fit_pool(SHARED, 60)
    matrix, ids = np.zeros((400, 60)), np.arange(400)
    for rows, weights in zip(pool_rows(ids, 60), importance.T, strict=True):
        matrix[ids, rows] += weights
    best = matrix @ np.linalg.lstsq(matrix, SHARED.astype(float), rcond=None)[0]
    loss = np.square(HashedTable(pool, importance)[:] - SHARED).sum()
    assert loss < 1.02 * np.square(best - SHARED).sum()


def test_more_rows_lose_less() -> None:
    losses = [
        np.square(HashedTable(*fit_pool(SHARED, size))[:] - SHARED).sum()
        for size in (2, 40, 150, 399)
    ]
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < 0.5 * losses[0]


def test_the_same_rows_have_the_same_pool() -> None:
    (pool, importance), (again, weights) = fit_pool(SHARED, 30), fit_pool(SHARED, 30)
    assert (pool.tobytes(), importance.tobytes()) == (again.tobytes(), weights.tobytes())


@pytest.mark.parametrize("size", [1, 400])
def test_a_pool_that_saves_nothing_and_one_without_two_rows_are_refused(size: int) -> None:
    with pytest.raises(ModelError, match=f"a pool of {size} rows for 400: choose 2 to 399"):
        fit_pool(SHARED, size)
