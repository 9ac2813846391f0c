"""k-means, beside scikit-learn's."""

import numpy as np
from sklearn.cluster import KMeans  # type: ignore[import-untyped]

from embedwell_models.compress.codes import centroids, nearest_centroids
from tests.models.word_files import vectors

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
