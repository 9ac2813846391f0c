"""Protocols of linear layers on arrays, which every backend implements.

B sequences, T tokens.
"""

from collections.abc import Sequence
from typing import Protocol

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
        """Build a layer. activation: a name of `config.activations`."""
        ...
