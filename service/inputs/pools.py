"""Token vectors to one vector, where a client says which tokens: spans and chunks."""

from typing import Literal

import numpy as np

from models.vectors import Floats

Pool = Literal["mean", "max"]


def pool(vectors: Floats, how: Pool) -> Floats:
    """The mean or the largest value of each dimension: (T, D) -> (D,), T at least 1."""
    if how == "max":
        largest: Floats = vectors.max(axis=0)
        return largest
    # In float32 the sum of large numbers overflows where their mean does not.
    mean: Floats = vectors.mean(axis=0, dtype=np.float64).astype(np.float32)
    return mean
