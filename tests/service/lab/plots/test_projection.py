"""Projections and clusters of vectors."""

import click
import numpy as np
import pytest

from embedwell_lab.plots.projection import MIN_TEXTS, cluster, project
from embedwell_models.vectors import Floats, normalize


def blobs(count: int, size: int) -> Floats:
    """`count` groups of `size` neighbouring unit vectors."""
    random = np.random.default_rng(0)
    centres = np.eye(count, 16)
    vectors = np.repeat(centres, size, 0) + random.normal(0, 0.05, (count * size, 16))
    return normalize(vectors.astype(np.float32))


def separation(points: Floats, size: int) -> float:
    """The least distance of two groups, over the largest of points in a group."""
    groups = points.reshape(-1, size, 2)
    centres = groups.mean(1)
    radius = np.linalg.norm(groups - centres[:, None], axis=-1).max()
    gaps = np.linalg.norm(centres[:, None] - centres[None], axis=-1)
    return float(gaps[gaps > 0].min() / radius)


def test_pca_states_the_variance_that_it_explains() -> None:
    vectors = np.array([[3, 0, 0], [-3, 0, 0], [0, 1, 0], [0, -1, 0]], np.float32)
    projection = project(vectors, "pca")
    assert projection.axes == (
        "component 1 (90.0% of variance)",
        "component 2 (10.0% of variance)",
    )
    np.testing.assert_allclose(np.abs(projection.points), np.abs(vectors[:, :2]), atol=1e-5)


@pytest.mark.parametrize("method", ["pca", "tsne"])
def test_groups_stay_apart(method: str) -> None:
    assert separation(project(blobs(3, 8), method).points, 8) > 2


@pytest.mark.full
def test_groups_stay_apart_in_umap() -> None:
    projection = project(blobs(2, 16), "umap")
    assert projection.name == "UMAP, 15 neighbours"
    assert separation(projection.points, 16) > 2


@pytest.mark.parametrize("method", ["pca", "tsne", pytest.param("umap", marks=pytest.mark.full)])
def test_the_least_number_of_texts_is_enough(method: str) -> None:
    points = project(blobs(1, MIN_TEXTS[method]), method).points
    assert points.shape == (MIN_TEXTS[method], 2) and np.isfinite(points).all()


@pytest.mark.parametrize(
    "method", ["pca", *(pytest.param(name, marks=pytest.mark.full) for name in ("tsne", "umap"))]
)
def test_the_same_vectors_have_the_same_projection(method: str) -> None:
    vectors = blobs(2, 4)
    np.testing.assert_array_equal(project(vectors, method).points, project(vectors, method).points)


def test_vectors_that_are_all_equal_are_refused() -> None:
    with pytest.raises(click.ClickException, match="all texts have the same vector"):
        project(np.ones((5, 3), np.float32), "pca")


def test_clusters_are_the_groups() -> None:
    labels = cluster(blobs(3, 10), 3).reshape(3, 10)
    assert (labels == labels[:, :1]).all() and len(set(labels[:, 0])) == 3


def test_more_clusters_than_different_vectors_are_refused() -> None:
    vectors = np.repeat(np.eye(3, dtype=np.float32), 4, 0)
    assert len(set(cluster(vectors, 3))) == 3
    with pytest.raises(click.ClickException, match="only 3 different vectors"):
        cluster(vectors, 4)
