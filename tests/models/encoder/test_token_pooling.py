"""Pooled vectors of tokens, against sentence-transformers and scipy."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy.cluster.hierarchy import fcluster, linkage  # type: ignore[import-untyped]
from scipy.spatial.distance import squareform  # type: ignore[import-untyped]
from sentence_transformers.multi_vector_encoder.modules import HierarchicalTokenPooling

from embedwell_models.encoder.token_pooling import MAX_TOKENS, pool_tokens
from embedwell_models.errors import InputError
from embedwell_models.vectors import Floats, normalize


def tokens(count: int, seed: int = 0, dim: int = 16) -> Floats:
    """Vectors of length 1, of which many are similar, as those of a text are."""
    noise = np.random.default_rng(seed)
    topics = noise.normal(size=(max(count // 8, 1), dim))
    rows = topics[noise.integers(len(topics), size=count)] + noise.normal(size=(count, dim))
    return normalize(rows.astype(np.float32))


def sorted_rows(rows: Floats) -> Floats:
    return rows[np.lexsort(rows.T[::-1])]


@pytest.mark.parametrize("factor", [2, 3, 6, 32])
@pytest.mark.parametrize("count", [1, 2, 3, 9, 40, 300])
def test_the_vectors_are_those_of_sentence_transformers(count: int, factor: int) -> None:
    reference = HierarchicalTokenPooling(factor)
    vectors = tokens(count, seed=count + factor)
    expected = reference.pool_one(torch.from_numpy(vectors)).numpy()
    pooled = pool_tokens(vectors, factor)
    assert pooled.dtype == np.float32 and pooled.shape == expected.shape
    assert_array_equal(pooled[0], vectors[0])
    assert_allclose(sorted_rows(pooled), sorted_rows(expected), atol=1e-6)


@pytest.mark.parametrize("seed", range(20))
def test_equal_tokens_are_in_the_clusters_of_scipy(seed: int) -> None:
    """Equal distances have no order: all merges of one height are made, or none."""
    noise = np.random.default_rng(seed)
    vectors = np.eye(8, dtype=np.float32)[noise.integers(8, size=30)]
    condensed = squareform(1.0 - vectors @ vectors.T, checks=False)
    labels = fcluster(linkage(condensed, method="ward"), t=10, criterion="maxclust")
    expected = [vectors[labels == label].mean(axis=0) for label in np.unique(labels)]
    pooled = pool_tokens(vectors, 3, protected=0)
    assert_allclose(sorted_rows(pooled), sorted_rows(normalize(np.array(expected))), atol=1e-6)


def test_vectors_are_in_the_order_of_the_first_tokens() -> None:
    a, b, c = np.eye(3, dtype=np.float32)
    assert_array_equal(pool_tokens(np.array([c, b, a, b, a, c]), 2, protected=0), [c, b, a])


@pytest.mark.parametrize("count", [0, 1])
def test_a_text_of_few_tokens_stays_as_it_is(count: int) -> None:
    assert_array_equal(pool_tokens(tokens(count), 4), tokens(count))


def test_a_factor_of_one_changes_nothing() -> None:
    assert_array_equal(pool_tokens(tokens(9), 1), tokens(9))


def test_a_vector_that_is_not_a_number_does_not_stop_the_others() -> None:
    vectors = tokens(20)
    vectors[5] = np.nan
    assert pool_tokens(vectors, 2).shape == (10, 16)


@pytest.mark.parametrize(("count", "factor"), [(9, 0), (9, -1), (9, 33), (MAX_TOKENS + 1, 2)])
def test_an_error_names_the_field(count: int, factor: int) -> None:
    with pytest.raises(InputError, match="pool_factor") as failed:
        pool_tokens(np.ones((count, 1), np.float32), factor)
    assert failed.value.param == "pool_factor"
