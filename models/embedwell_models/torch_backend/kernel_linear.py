"""Linear layers of the compiled kernels for layers on torch."""

from dataclasses import dataclass

import torch
from torch import Tensor

from embedwell_models.cpu_backend.library import best_isa
from embedwell_models.cpu_backend.linear import KernelLinearFactory
from embedwell_models.cpu_backend.prepack import Packing
from embedwell_models.encoder import layers
from embedwell_models.torch_backend.linear import (
    Linear,
    LinearFactory,
    RowMaximum,
    WeightAndBias,
    torch_linear_factory,
)
from embedwell_models.torch_backend.sequence_layout import SequenceLayout


class TensorKernelLinearFactory(LinearFactory):
    """Factory of linear layers on tensors of a CPU that the kernels compute."""

    dtype = torch.float32
    fuses_residual = True

    def __init__(self, kernels: KernelLinearFactory) -> None:
        self._kernels = kernels

    def __call__(
        self, weight: Tensor, bias: Tensor, activation: str = "none", *, name: str = ""
    ) -> Linear:
        return _Linear(self._kernels(weight.numpy(), bias.numpy(), activation, name=name))

    def gated(
        self, gate: WeightAndBias, up: WeightAndBias, activation: str, *, name: str = ""
    ) -> Linear:
        (gate_weight, gate_bias), (up_weight, up_bias) = gate, up
        arrays = (
            (gate_weight.numpy(), gate_bias.numpy()),
            (up_weight.numpy(), up_bias.numpy()),
        )
        return _Linear(self._kernels.gated(*arrays, activation, name=name))

    def row_maximum(self, weight: Tensor, bias: Tensor, *, name: str = "") -> RowMaximum:
        return _RowMaximum(self._kernels.row_maximum(weight.numpy(), bias.numpy(), name=name))


@dataclass(frozen=True)
class _Linear:
    linear: layers.Linear

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        added = None if residual is None else residual.numpy()
        return torch.from_numpy(self.linear(x.numpy(), added))


@dataclass(frozen=True)
class _RowMaximum:
    row_maximum: layers.RowMaximum

    def __call__(self, x: Tensor, layout: SequenceLayout) -> Tensor:
        return torch.from_numpy(self.row_maximum(x.numpy(), layout.host_lengths))


def row_exact_linear_factory(cpu_features: frozenset[str]) -> LinearFactory:
    """Return a factory of float32 layers on a CPU whose output rows depend only on their input row.

    cpu_features: see embedwell_models.cpu_backend.library.
    """
    isa = best_isa("float32", cpu_features)
    if isa is None:
        return torch_linear_factory(torch.device("cpu"), torch.float32)
    return TensorKernelLinearFactory(KernelLinearFactory(isa, Packing("float32")))
