"""Linear layers of the compiled kernels for tensors, and those of torch for arrays."""

from dataclasses import dataclass

import torch
from torch import Tensor

from embedwell_models.cpu_backend.library import best_isa
from embedwell_models.cpu_backend.linear import KernelLinearFactory
from embedwell_models.cpu_backend.prepack import Packing
from embedwell_models.encoder import encoder as arrays
from embedwell_models.torch_backend.linear import Linear, LinearFactory, RowMaximum, WeightAndBias
from embedwell_models.torch_backend.linear_choice import torch_linear_factory
from embedwell_models.torch_backend.sequence_layout import SequenceLayout
from embedwell_models.vectors import Floats


class TensorKernelLinearFactory(LinearFactory):
    """Factory of linear layers on tensors of a CPU that the kernels compute."""

    dtype = torch.float32
    fuses_residual = True

    def __init__(self, kernels: KernelLinearFactory) -> None:
        self._kernels = kernels

    def __call__(
        self, weight: Tensor, bias: Tensor, activation: str = "none", *, name: str = ""
    ) -> Linear:
        return _KernelLinear(self._kernels(weight.numpy(), bias.numpy(), activation, name=name))

    def gated(
        self, gate: WeightAndBias, up: WeightAndBias, activation: str, *, name: str = ""
    ) -> Linear:
        of_gate, of_up = ((weight.numpy(), bias.numpy()) for weight, bias in (gate, up))
        return _KernelLinear(self._kernels.gated(of_gate, of_up, activation, name=name))

    def row_maximum(self, weight: Tensor, bias: Tensor, *, name: str = "") -> RowMaximum:
        return _KernelRowMaximum(self._kernels.row_maximum(weight.numpy(), bias.numpy(), name=name))


@dataclass(frozen=True)
class _KernelLinear:
    linear: arrays.Linear

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        added = None if residual is None else residual.numpy()
        return torch.from_numpy(self.linear(x.numpy(), added))


@dataclass(frozen=True)
class _KernelRowMaximum:
    row_maximum: arrays.RowMaximum

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


@dataclass(frozen=True)
class ArrayLinearFactory(arrays.LinearFactory):
    """Factory of linear layers on arrays.

    factory: builds the layers on tensors in float32, on the device.
    """

    factory: LinearFactory
    device: torch.device

    def __call__(
        self, weight: Floats, bias: Floats, activation: str = "none", *, name: str = ""
    ) -> arrays.Linear:
        tensors = torch.from_numpy(weight), torch.from_numpy(bias)
        return _ArrayLinear(self.factory(*tensors, activation, name=name), self.device)


def device_linear(device: torch.device) -> ArrayLinearFactory:
    """Return a factory of float32 layers on a device; on a CPU their rows are independent."""
    return ArrayLinearFactory(torch_linear_factory(device, torch.float32), device)


@dataclass(frozen=True)
class _ArrayLinear:
    linear: Linear
    device: torch.device

    @torch.inference_mode()
    def __call__(self, x: Floats, residual: Floats | None = None) -> Floats:
        added = None if residual is None else torch.from_numpy(residual).to(self.device)
        result: Floats = self.linear(torch.from_numpy(x).to(self.device), added).cpu().numpy()
        return result
