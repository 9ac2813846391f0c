"""Pooling of the token vectors of spans and chunks."""

from typing import Literal

import numpy as np

from models.vectors import Floats

Pool = Literal["mean", "max"]


def pool(vectors: Floats, method: Pool) -> Floats:
    """Return the mean or maximum of each dimension: (T, D) -> (D,), T at least 1."""
    if method == "max":
        largest: Floats = vectors.max(axis=0)
        return largest
    # In float32 the sum of large numbers may overflow though their mean does not.
    mean: Floats = vectors.mean(axis=0, dtype=np.float64).astype(np.float32)
    return mean
