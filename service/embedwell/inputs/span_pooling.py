"""Pool the token vectors of spans and chunks."""

from typing import Literal

import numpy as np

from embedwell_models.vectors import Floats

SpanPooling = Literal["mean", "max"]
"""Method to combine the token vectors of a span or chunk into one vector."""


def pool(vectors: Floats, method: SpanPooling) -> Floats:
    """Return the mean or maximum of each dimension: (T, D) -> (D,) for T of at least 1."""
    if method == "max":
        largest: Floats = vectors.max(axis=0)
        return largest
    # In float32 the sum of large numbers can overflow although their mean does not.
    mean: Floats = vectors.mean(axis=0, dtype=np.float64).astype(np.float32)
    return mean
