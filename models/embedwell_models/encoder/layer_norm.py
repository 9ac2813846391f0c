"""Layer normalisation of arrays."""

import numpy as np

from embedwell_models.vectors import Floats


def layer_norm(x: Floats, weight: Floats, bias: Floats, eps: float) -> Floats:
    """Normalise each row to mean 0 and variance 1, then scale and shift: (B, D) -> (B, D).

    Ba et al. 2016, arXiv 1607.06450. A row has the same bytes in every contiguous array. weight,
    bias: (D,). eps: added to the variance.
    """
    y: Floats = x - x.mean(axis=-1, keepdims=True)
    variance = np.square(y).mean(axis=-1, keepdims=True)
    y /= np.sqrt(variance + np.float32(eps))
    y *= weight
    y += bias
    return y
