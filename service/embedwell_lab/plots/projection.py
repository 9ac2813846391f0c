"""Project vectors to a plane, and cluster them, with scikit-learn and umap-learn."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click
import numpy as np
import numpy.typing as npt

from embedwell_models.vectors import Floats

_SEED = 0

MIN_TEXTS = {"pca": 3, "tsne": 5, "umap": 5}
"""Minimum number of texts of each method."""


@dataclass(frozen=True)
class Projection:
    """Points of a projection.

    points: (B, 2).
    axes: name of each axis.
    name: the method and its parameters.
    """

    points: Floats
    axes: tuple[str, str]
    name: str


def project(vectors: Floats, method: str) -> Projection:
    """Project B vectors of unit length to a plane: (B, D) -> (B, 2).

    The seed is fixed, so the same vectors have the same projection. Raises ClickException if all
    vectors are equal.
    """
    if (vectors == vectors[0]).all():
        raise click.ClickException(
            "all texts have the same vector, so there is nothing to draw; give different texts"
        )
    return _METHODS[method](vectors)


def cluster(vectors: Floats, count: int) -> npt.NDArray[np.int64]:
    """Assign each of B vectors of unit length to a cluster by k-means: (B, D) -> (B,).

    Raises ClickException for fewer different vectors than clusters.
    """
    from sklearn.cluster import KMeans  # type: ignore[import-untyped]

    different = len(np.unique(vectors, axis=0))
    if different < count:
        raise click.ClickException(
            f"--clusters is {count}, but there are only {different} different vectors"
        )
    labels: Any = KMeans(count, n_init=10, random_state=_SEED).fit_predict(vectors)
    return np.asarray(labels, np.int64)


def _pca(vectors: Floats) -> Projection:
    """Project to the principal components, with the share of variance that each explains."""
    from sklearn.decomposition import PCA  # type: ignore[import-untyped]

    pca = PCA(2, svd_solver="full")
    points = pca.fit_transform(vectors)
    first, second = (
        f"component {number} ({ratio:.1%} of variance)"
        for number, ratio in enumerate(pca.explained_variance_ratio_, start=1)
    )
    return Projection(points, (first, second), "PCA")


def _tsne(vectors: Floats) -> Projection:
    """Project by t-SNE from a PCA, which keeps the global arrangement (Kobak & Berens 2019)."""
    from sklearn.manifold import TSNE  # type: ignore[import-untyped]

    perplexity = min(30.0, (len(vectors) - 1) / 3)
    points = TSNE(perplexity=perplexity, init="pca", random_state=_SEED).fit_transform(vectors)
    return Projection(points, ("t-SNE 1", "t-SNE 2"), f"t-SNE, perplexity {perplexity:.3g}")


def _umap(vectors: Floats) -> Projection:
    """Project by UMAP (McInnes et al. 2018, arXiv 1802.03426), from a PCA."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ImportWarning)  # warning of a part that needs TensorFlow
        from umap import UMAP  # type: ignore[import-untyped]

    neighbors = min(15, len(vectors) - 1)
    umap = UMAP(n_neighbors=neighbors, init="pca", random_state=_SEED, n_jobs=1)
    points = umap.fit_transform(vectors)
    return Projection(points, ("UMAP 1", "UMAP 2"), f"UMAP, {neighbors} neighbours")


_METHODS: dict[str, Callable[[Floats], Projection]] = {"pca": _pca, "tsne": _tsne, "umap": _umap}
