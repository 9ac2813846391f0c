"""Token pooling: similar vectors of a document's tokens become their mean.

Clavié, Chaffin and Adams 2024, arXiv 2409.14683. T tokens, N clusters, D dimensions.
"""

import numpy as np
import numpy.typing as npt

from embedwell_models.errors import InputError
from embedwell_models.outputs.names import MAX_POOL_FACTOR
from embedwell_models.tokenizer.steps import Steps, run_to_completion
from embedwell_models.vectors import Doubles, Floats, normalize

MAX_TOKENS = 4096
"""Largest number of vectors that are pooled, because their distances take memory."""
MEMORY_PER_PAIR = 24
"""Bytes for each pair of vectors while they are pooled."""
_PROTECTED = 1  # the token at the start of a text, such as [CLS]

Indices = npt.NDArray[np.intp]


def pool_tokens(vectors: Floats, factor: int, protected: int = _PROTECTED) -> Floats:
    """Pool the vectors (T, D) of a document's tokens to about T / factor.

    The first `protected` vectors stay as they are. The others are clustered by Ward's method on
    their cosine distances, and each cluster becomes its mean, scaled to the length 1, in the order
    of the first tokens.

    Raises InputError for a factor that is not from 1 to MAX_POOL_FACTOR, and for too many tokens.
    """
    return run_to_completion(pooling_steps(vectors, factor, protected))


def pooling_steps(vectors: Floats, factor: int, protected: int = _PROTECTED) -> Steps[Floats]:
    """Pool the vectors of a document's tokens in steps, see `pool_tokens`."""
    if not 1 <= factor <= MAX_POOL_FACTOR:
        raise InputError(
            f"pool_factor is {factor}; give a number from 1 to {MAX_POOL_FACTOR}",
            param="pool_factor",
        )
    rows = vectors[protected:]
    count = max(len(rows) // factor, 1)
    if count >= len(rows):
        return vectors
    if len(vectors) > MAX_TOKENS:
        raise InputError(
            f"pool_factor takes texts of up to {MAX_TOKENS} tokens, but one has {len(vectors)}; "
            "split it",
            param="pool_factor",
        )
    clusters = yield from _ward_clusters(_squared_distances(rows), count)
    order, sizes = clusters.argsort(kind="stable"), np.bincount(clusters)
    sums = np.add.reduceat(rows[order].astype(np.float64), sizes.cumsum() - sizes)
    means = (sums / sizes[:, None]).astype(np.float32)
    return np.concatenate([vectors[:protected], normalize(means)])


def _squared_distances(rows: Floats) -> Doubles:
    """Return the squares of the cosine distances of rows of length 1: (T, D) -> (T, T)."""
    doubles = rows.astype(np.float64)
    distances: Doubles = 1 - doubles @ doubles.T
    np.fmin(np.fmax(distances, 0, out=distances), 2, out=distances)  # a number also for NaN
    return np.square(distances, out=distances)


def _ward_clusters(squares: Doubles, count: int) -> Steps[Indices]:
    """Assign T points to at most `count` clusters, numbered by their first points: (T,).

    The same as scipy's `linkage` with the method ward and `fcluster` with the criterion maxclust.
    In each step, all pairs of clusters merge that are nearest to each other, which gives the same
    hierarchy as one pair at a time (Murtagh 1983, doi 10.1093/comjnl/26.4.354).

    squares: the squared distances of the points (T, T).
    """
    points, sizes, tops = np.arange(len(squares)), np.ones(len(squares)), np.zeros(len(squares))
    sums, merges = squares, list[Doubles]()
    while len(points) > 1:
        distances = _between(sums, sizes)
        nearest = distances.argmin(axis=1)
        first = np.flatnonzero(nearest[nearest] == np.arange(len(points)))
        first = first[first < nearest[first]]
        second = nearest[first]
        tops[first] = np.max([distances[first, second], tops[first], tops[second]], axis=0)
        merges.append(np.stack([tops[first], points[first], points[second]]))
        sizes[first] += sizes[second]
        sums = _merge(_merge(sums, first, second).T, first, second)
        points, sizes = np.delete(points, second), np.delete(sizes, second)
        tops = np.delete(tops, second)
        yield
    return _cut(np.concatenate(merges, axis=1), len(squares) - count)


def _between(sums: Doubles, sizes: Doubles) -> Doubles:
    """Return the squared distances of clusters in Ward's method, infinite to themselves: (N, N).

    sums: of the squared distances of all points of a cluster to all of another, or of the same
    cluster (N, N). sizes: numbers of points (N,).
    """
    distances, within = 2 * sums, np.multiply.outer(sizes, sums.diagonal() / sizes)
    distances -= within
    distances -= within.T
    distances /= np.add.outer(sizes, sizes, out=within)
    np.minimum(distances, distances.T, out=within)  # rounding makes them differ
    np.fill_diagonal(within, np.inf)
    return within


def _merge(sums: Doubles, first: Indices, second: Indices) -> Doubles:
    """Add the rows `second` to the rows `first`, and leave them out."""
    merged = np.delete(sums, second, axis=0)
    is_left = np.ones(len(sums), dtype=np.bool_)
    is_left[second] = False
    merged[(is_left.cumsum() - 1)[first]] += sums[second]
    return merged


def _cut(merges: Doubles, count: int) -> Indices:
    """Make the `count` lowest merges, and others of the same height; return the clusters: (T,).

    merges: the height of each, the first point of a cluster, and that of the one that it absorbs.
    """
    heights, (first, second) = merges[0], merges[1:].astype(np.intp)
    made = heights <= np.sort(heights)[count - 1]
    parents = np.arange(len(heights) + 1)
    parents[second[made]] = first[made]
    while not np.array_equal(grandparents := parents[parents], parents):
        parents = grandparents
    clusters: Indices = np.unique(parents, return_inverse=True)[1]
    return clusters
