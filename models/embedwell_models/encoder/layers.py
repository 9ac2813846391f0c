"""Layers on arrays: protocols of linear ones, which every backend implements, and a norm.

B sequences, T tokens.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from embedwell_models.vectors import Floats

WeightAndBias = tuple[Floats, Floats]
"""Float32 weight (out, in) and bias (out,)."""


class Linear(Protocol):
    """x W^T + b, then the activation, or plus a residual: (T, in) -> (T, out)."""

    def __call__(self, x: Floats, residual: Floats | None = None) -> Floats: ...


class RowMaximum(Protocol):
    """Compute the maximum of 0 and x W^T + b over each sequence: (T, in) -> (B, out)."""

    def __call__(self, x: Floats, lengths: Sequence[int]) -> Floats: ...


class LinearFactory(Protocol):
    """Factory of linear layers whose output rows depend only on their input row.

    name: name of the linear layer, for factories that treat layers differently.
    """

    def __call__(
        self, weight: Floats, bias: Floats, activation: str = "none", *, name: str = ""
    ) -> Linear:
        """Build a layer. activation: a value of `ACTIVATIONS`."""
        ...


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
