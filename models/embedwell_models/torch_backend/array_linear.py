"""Linear layers of torch on a CPU, behind the interface for arrays."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from embedwell_models.encoder.linear import Linear, LinearFactory, RowMaximum, WeightAndBias
from embedwell_models.torch_backend import linear as on_tensors
from embedwell_models.vectors import Floats


def as_tensors(parts: WeightAndBias) -> on_tensors.WeightAndBias:
    """Return a weight and a bias as tensors that share their memory."""
    weight, bias = parts
    return torch.from_numpy(weight), torch.from_numpy(bias)


@dataclass(frozen=True)
class ArrayLinearFactory(LinearFactory):
    """Factory of linear layers on arrays.

    factory: builds the layers on tensors, on a CPU in float32.
    """

    factory: on_tensors.LinearFactory

    def __call__(
        self, weight: Floats, bias: Floats, activation: str = "none", *, name: str = ""
    ) -> Linear:
        tensors = as_tensors((weight, bias))
        return _ArrayLinear(self.factory(*tensors, activation, name=name))

    def row_maximum(self, weight: Floats, bias: Floats, *, name: str = "") -> RowMaximum:
        tensors = as_tensors((weight, bias))
        return _ArrayRowMaximum(self.factory.row_maximum(*tensors, name=name))


@dataclass(frozen=True)
class _ArrayLinear:
    linear: on_tensors.Linear

    @torch.inference_mode()
    def __call__(self, x: Floats, residual: Floats | None = None) -> Floats:
        added = None if residual is None else torch.from_numpy(residual)
        result: Floats = self.linear(torch.from_numpy(x), added).numpy()
        return result


@dataclass(frozen=True)
class _ArrayRowMaximum:
    maximum: on_tensors.RowMaximum

    @torch.inference_mode()
    def __call__(self, x: Floats, lengths: Sequence[int]) -> Floats:
        result: Floats = self.maximum(torch.from_numpy(x), lengths).numpy()
        return result
