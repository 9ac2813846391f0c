"""Tests of what is done to finished vectors, against sentence-transformers."""

from collections.abc import Collection
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sentence_transformers import quantize_embeddings
from sentence_transformers.util import (
    cos_sim,
    dot_score,
    euclidean_sim,
    manhattan_sim,
    truncate_embeddings,
)

from embedwell_models.errors import DimensionsError, ModelError
from embedwell_models.vectors import (
    METRICS,
    AllowedDimensions,
    cosine,
    listwise_scores,
    maxsim,
    normalize,
    quantize,
    truncate_and_normalize,
)

Floats = npt.NDArray[np.float32]


def vectors(rows: int, columns: int, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).normal(size=(rows, columns)).astype(np.float32)


def test_a_normalised_row_has_length_one() -> None:
    units = normalize(vectors(20, 384) * 30)
    assert units.dtype == np.float32
    assert_allclose(np.linalg.norm(units, axis=1), 1.0, rtol=1e-6)


def test_a_row_of_zeros_stays_zero() -> None:
    assert_array_equal(normalize(np.zeros((2, 8), dtype=np.float32)), np.zeros((2, 8)))


def test_numbers_whose_squares_overflow_are_normalised_and_their_neighbours_the_same() -> None:
    rows = vectors(6, 48)
    scaled = rows * np.float32(1e38 / np.abs(rows).max()) * (np.arange(6) % 2 == 0)[:, None]
    found = normalize(np.where(scaled == 0, rows, scaled))
    assert_allclose(found, normalize(rows), rtol=1e-5)
    assert_array_equal(found[1::2], normalize(rows)[1::2])


def test_a_row_is_normalised_to_the_same_bits_in_every_batch() -> None:
    rows = vectors(33, 384)
    together = normalize(rows)
    for index in range(33):
        assert normalize(rows[index : index + 1]).tobytes() == together[index].tobytes()


@pytest.mark.parametrize("dimensions", [None, 1, 64, 384])
def test_shortening_then_normalising_equals_sentence_transformers(dimensions: int | None) -> None:
    rows = vectors(9, 384)
    cut = torch.from_numpy(truncate_embeddings(rows, dimensions))
    expected = torch.nn.functional.normalize(cut, dim=-1)
    assert_allclose(
        truncate_and_normalize(rows, dimensions, normalized=True), expected.numpy(), atol=1e-7
    )


def test_shortening_alone_keeps_the_numbers_contiguous() -> None:
    rows = vectors(9, 384)
    cut = truncate_and_normalize(rows, 64, normalized=False)
    assert_array_equal(cut, rows[:, :64])
    assert cut.flags.c_contiguous


@pytest.mark.parametrize("columns", [8, 12, 384])
@pytest.mark.parametrize("dtype", ["binary", "ubinary"])
def test_bits_equal_those_of_sentence_transformers(dtype: Any, columns: int) -> None:
    rows = vectors(17, columns)
    rows[3, :4] = 0.0
    ours = quantize(rows, dtype)
    theirs = np.asarray(quantize_embeddings(rows, precision=dtype))
    assert ours.dtype == theirs.dtype
    assert_array_equal(ours, theirs)


def cosines_of(stored: Floats) -> Floats:
    return cosine(stored, stored)


@pytest.mark.parametrize(("dtype", "zero"), [("int8", 0), ("uint8", 128)])
def test_a_byte_for_each_dimension_keeps_the_vector(dtype: str, zero: int) -> None:
    rows = vectors(50, 384)
    stored = quantize(rows, dtype)
    assert stored.dtype == np.dtype(dtype)
    restored = stored.astype(np.float32) - zero
    assert_array_equal(np.abs(restored).max(axis=1), 127)
    assert np.diag(cosine(rows, restored)).min() >= 0.9999
    assert np.abs(cosines_of(rows) - cosines_of(restored)).max() < 0.002


def test_a_row_of_zeros_is_stored_as_zeros() -> None:
    zeros = np.zeros((1, 16), dtype=np.float32)
    assert_array_equal(quantize(zeros, "int8"), np.zeros((1, 16)))
    assert_array_equal(quantize(zeros, "uint8"), np.full((1, 16), 128))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_floats_are_rounded_at_most(dtype: str) -> None:
    rows = vectors(5, 32)
    stored = quantize(rows, dtype)
    assert stored.dtype == np.dtype(dtype)
    assert_array_equal(stored, rows.astype(dtype))


@pytest.mark.parametrize(
    ("metric", "reference"),
    [
        ("cosine", cos_sim),
        ("dot", dot_score),
        ("euclidean", euclidean_sim),
        ("manhattan", manhattan_sim),
    ],
)
def test_similarities_equal_those_of_sentence_transformers(metric: str, reference: object) -> None:
    assert callable(reference)
    a, b = vectors(7, 48, seed=1), vectors(4, 48, seed=2)
    ours = METRICS[metric](a, b)
    assert ours.shape == (7, 4)
    assert ours.dtype == np.float32
    assert_allclose(ours, reference(a, b).numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("metric", METRICS)
def test_equal_vectors_have_equal_scores_wherever_they_stand(metric: str) -> None:
    one, other = vectors(1, 384, seed=1), vectors(1, 384, seed=2)
    for count in range(2, 70):
        assert len(np.unique(METRICS[metric](one, other.repeat(count, axis=0)))) == 1


@pytest.mark.parametrize("metric", METRICS)
def test_pairs_are_scored_as_in_the_matrix(metric: str) -> None:
    a, b = vectors(9, 48, seed=1), vectors(9, 48, seed=2)
    pairs = METRICS[metric](a[:, None], b[:, None])
    assert_array_equal(pairs[:, 0, 0], np.diag(METRICS[metric](a, b)))


@pytest.mark.parametrize("power", [-37, -25, -13, 0, 13, 25, 37])
def test_a_cosine_does_not_depend_on_lengths(power: int) -> None:
    rows = vectors(9, 48)
    assert_allclose(cosine(rows * np.float32(10.0**power), rows), cosine(rows, rows), atol=1e-6)


def test_the_cosine_with_zeros_is_zero() -> None:
    zeros = np.zeros((1, 48), dtype=np.float32)
    assert_array_equal(cosine(zeros, vectors(3, 48)), np.zeros((1, 3)))


@pytest.mark.parametrize("length", [1e-45, 1e-25, 1e25, 3e38])
@pytest.mark.parametrize("metric", ["euclidean", "manhattan"])
def test_a_distance_that_float32_holds_is_told(metric: str, length: float) -> None:
    a, b = np.array([[length, 0]], dtype=np.float32), np.zeros((1, 2), dtype=np.float32)
    assert METRICS[metric](a, b) == -a[0, 0]


@pytest.mark.parametrize("metric", ["euclidean", "manhattan"])
def test_the_distance_to_itself_has_no_sign(metric: str) -> None:
    rows = vectors(1, 48)
    assert not np.signbit(METRICS[metric](rows, rows))


@pytest.mark.parametrize("metric", METRICS)
def test_nothing_is_closer_to_a_vector_than_itself(metric: str) -> None:
    rows = normalize(vectors(12, 48))
    similar = METRICS[metric](rows, rows)
    assert_array_equal(similar.argmax(axis=1), np.arange(12))


def test_maxsim_is_the_sum_of_the_largest_products() -> None:
    query = np.array([[1, 0], [0, 1], [-1, 0]], dtype=np.float32)
    document = np.array([[0.5, 0.5], [2, -3]], dtype=np.float32)
    assert maxsim(query, document) == 2 + 0.5 - 0.5
    assert maxsim(query, document[:0]) == 0.0


def test_no_order_of_the_vectors_changes_a_maxsim() -> None:
    query, document = vectors(32, 128), vectors(300, 128)
    assert maxsim(query, document[::-1]) == maxsim(query, document)


def test_a_cosine_is_never_above_one() -> None:
    rows = vectors(200, 384)
    similar = cosine(rows, rows)
    assert similar.max() <= 1.0
    assert cosine(rows, -rows).min() >= -1.0


def block(*rows: tuple[float, float]) -> Floats:
    return np.array(rows, dtype=np.float32)


def test_the_scores_of_one_block_are_cosines_with_its_query() -> None:
    scores = listwise_scores([block((2, 0), (0, 3), (-1, 0), (5, 0))])
    np.testing.assert_array_equal(scores, [1, 0, -1])


def test_a_block_weighs_by_its_best_score() -> None:
    # The best scores are 1 and 0, so the weights are 1 and 1/2.
    first, second = block((-1, 0), (1, 0), (1, 0)), block((1, 0), (-1, 0), (0, 1))
    expected = 1 / np.hypot(1, 0.5) * np.array([-1, 1, 1, -1])
    np.testing.assert_allclose(listwise_scores([first, second]), expected, atol=1e-6)


def test_documents_opposite_to_the_query_have_scores() -> None:
    assert listwise_scores([block((-1, 0), (1, 0))]).tolist() == [-1]


@pytest.mark.parametrize(
    ("choice", "declared", "allowed"),
    [
        ("declared", (), set[int]()),
        ("declared", (2, 4), {2, 4}),
        ("declared", range(1, 9), set(range(1, 9))),
        ("any", (2, 4), set(range(1, 9))),
        ("none", (2, 4), set[int]()),
        ("3,5", (2, 4), {3, 5}),
    ],
)
def test_the_choice_overrides_the_declared_dimensions(
    choice: str, declared: Collection[int], allowed: set[int]
) -> None:
    dimensions = AllowedDimensions.from_setting(choice, 8, declared)
    for requested in range(1, 8):
        if requested in allowed:
            dimensions.check(requested)
        else:
            with pytest.raises(DimensionsError, match="are not offered"):
                dimensions.check(requested)
    dimensions.check(None)
    dimensions.check(8)
    with pytest.raises(DimensionsError, match="dimensions is 9, but the model has 8"):
        dimensions.check(9)
    with pytest.raises(DimensionsError, match="dimensions is 0, but a vector has one or more"):
        dimensions.check(0)


@pytest.mark.parametrize(
    ("choice", "problem"),
    [
        ("0", "0 is not between 1 and 8"),
        ("4,9", "9 is not between 1 and 8"),
        ("all", "'all' is not declared, any, none, or numbers"),
    ],
)
def test_impossible_dimensions_are_refused(choice: str, problem: str) -> None:
    with pytest.raises(ModelError, match=f"dimensions: {problem}"):
        AllowedDimensions.from_setting(choice, 8, ())
