"""Linear layers in the kernels: float32 input and output, products in the weights' precision."""

from collections.abc import Sequence
from ctypes import addressof
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from embedwell_models.cpu_backend import abi
from embedwell_models.cpu_backend.library import Kernel, best_isa, kernel
from embedwell_models.cpu_backend.prepack import (
    Packing,
    WeightPacker,
    interleave_panels,
    padding_to_tiles,
)
from embedwell_models.torch_backend.linear import (
    ACTIVATIONS,
    Linear,
    LinearFactory,
    RowMaximum,
    WeightAndBias,
    torch_linear_factory,
)


class KernelLinearFactory(LinearFactory):
    """Factory of linear layers that the kernels of an instruction set compute in a precision.

    The result of a row is bit-identical in every batch. Raises AttributeError if the instruction
    set lacks the precision.
    """

    dtype = torch.float32

    def __init__(self, isa: str, packing: Packing) -> None:
        self._kernel = kernel(isa, f"linear_{packing.dtype}")
        self._row_maximum_kernel = kernel(isa, f"row_maximum_{packing.dtype}")
        self._packing = packing

    def __call__(
        self, weight: Tensor, bias: Tensor, activation: str = "none", *, name: str = ""
    ) -> Linear:
        linear = self._linear(weight, bias, activation, name)
        return _without_padding(linear, *weight.shape)

    def gated(
        self, gate: WeightAndBias, up: WeightAndBias, activation: str, *, name: str = ""
    ) -> Linear:
        weight, bias = (interleave_panels(*parts) for parts in zip(gate, up, strict=True))
        linear = self._linear(weight, bias, activation, name, gated=True)
        return _without_padding(linear, *gate[0].shape)

    def row_maximum(self, weight: Tensor, bias: Tensor, *, name: str = "") -> RowMaximum:
        linear = self._linear(weight, bias, "none", name)
        return _RowMaximum(self._row_maximum_kernel, linear, *weight.shape)

    def _linear(
        self, weight: Tensor, bias: Tensor, activation: str, name: str, gated: bool = False
    ) -> "_KernelLinear":
        packer = WeightPacker(self._packing)
        rows, columns = padding_to_tiles(weight)
        linear = abi.Linear(
            matrix=packer.matrix(weight, bias, name),
            depth=weight.shape[1] + columns,
            columns=weight.shape[0] + rows,
            activation=ACTIVATIONS[activation].number,
            gated=gated,
        )
        return _KernelLinear(self._kernel, linear, packer)


def row_exact_linear_factory(cpu_features: frozenset[str]) -> LinearFactory:
    """Return a factory of float32 layers on a CPU whose output rows depend only on their input row.

    cpu_features: see embedwell_models.cpu_backend.library.
    """
    isa = best_isa("float32", cpu_features)
    if isa is None:
        return torch_linear_factory(torch.device("cpu"), torch.float32)
    return KernelLinearFactory(isa, Packing("float32"))


class _KernelLinear:
    def __init__(self, kernel: Kernel, linear: abi.Linear, packer: WeightPacker) -> None:
        self._kernel, self.struct = kernel, linear
        self._packer = packer  # owns the memory that `struct` points to
        self.depth, self.width = linear.depth, linear.columns // (1 + linear.gated)

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        x, y = x.contiguous(), torch.empty(len(x), self.width)
        assert x.dtype == torch.float32 and x.shape[1] == self.depth
        call = abi.LinearCall(addressof(self.struct), x.data_ptr(), None, y.data_ptr(), len(x))
        if residual is not None:
            residual = residual.contiguous()
            assert residual.dtype == torch.float32 and residual.shape == y.shape
            call.residual = residual.data_ptr()
        self._kernel(call)
        return y


@dataclass(frozen=True)
class _RowMaximum:
    # For a weight (rows, columns) that may be padded to tiles.
    kernel: Kernel
    linear: _KernelLinear
    rows: int
    columns: int

    def __call__(self, x: Tensor, lengths: Sequence[int]) -> Tensor:
        assert x.dtype == torch.float32 and x.shape[1] == self.columns
        x = F.pad(x, (0, self.linear.depth - self.columns)).contiguous()
        maxima = torch.zeros(len(lengths), self.linear.width)
        sequence_of = torch.arange(len(lengths)).repeat_interleave(torch.tensor(lengths))
        call = abi.RowMaximumCall(
            addressof(self.linear.struct),
            x.data_ptr(),
            sequence_of.data_ptr(),
            maxima.data_ptr(),
            len(x),
        )
        self.kernel(call)
        return maxima[:, : self.rows]


def _without_padding(linear: _KernelLinear, rows: int, columns: int) -> Linear:
    # For a weight (rows, columns) that may be padded to tiles.
    if (linear.width, linear.depth) == (rows, columns):
        return linear
    return _PaddedLinear(linear, rows, columns)


@dataclass(frozen=True)
class _PaddedLinear:
    linear: _KernelLinear
    rows: int
    columns: int

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        assert x.shape[1] == self.columns
        y = self.linear(F.pad(x, (0, self.linear.depth - self.columns)))[:, : self.rows]
        return y.contiguous() if residual is None else y + residual
