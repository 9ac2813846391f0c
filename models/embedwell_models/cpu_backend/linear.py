"""Linear layers in the kernels: float32 input and output, products in the weights' precision."""

from collections.abc import Sequence
from ctypes import addressof
from dataclasses import dataclass

import numpy as np

from embedwell_models.cpu_backend import abi
from embedwell_models.cpu_backend.library import Kernel, kernel
from embedwell_models.cpu_backend.prepack import (
    Packing,
    WeightPacker,
    interleave_panels,
    padding_to_tiles,
)
from embedwell_models.encoder.encoder import Linear, LinearFactory, RowMaximum, WeightAndBias
from embedwell_models.vectors import Floats

ACTIVATIONS = ("none", "gelu", "gelu_tanh", "relu", "silu", "gelu_sigmoid", "tanh")
"""Activations, by their numbers in kernels/vector.h."""


class KernelLinearFactory(LinearFactory):
    """Factory of linear layers that the kernels of an instruction set compute in a precision.

    The result of a row is bit-identical in every batch. Raises AttributeError if the instruction
    set lacks the precision.
    """

    def __init__(self, isa: str, packing: Packing) -> None:
        self._kernel = kernel(isa, f"linear_{packing.products}")
        self._row_maximum_kernel = kernel(isa, f"row_maximum_{packing.products}")
        self._isa, self._packing = isa, packing

    def __call__(
        self, weight: Floats, bias: Floats, activation: str = "none", *, name: str = ""
    ) -> Linear:
        linear = self._linear(weight, bias, activation, name)
        return _without_padding(linear, *weight.shape)

    def gated(
        self, gate: WeightAndBias, up: WeightAndBias, activation: str, *, name: str = ""
    ) -> Linear:
        """Build act(x Wg^T + bg) * (x Wu^T + bu), after Shazeer 2020 (arXiv 2002.05202)."""
        weight, bias = (interleave_panels(*parts) for parts in zip(gate, up, strict=True))
        linear = self._linear(weight, bias, activation, name, gated=True)
        return _without_padding(linear, *gate[0].shape)

    def row_maximum(self, weight: Floats, bias: Floats, *, name: str = "") -> RowMaximum:
        linear = self._linear(weight, bias, "none", name)
        return _RowMaximum(self._row_maximum_kernel, linear, *weight.shape)

    def _linear(
        self, weight: Floats, bias: Floats, activation: str, name: str, gated: bool = False
    ) -> "_KernelLinear":
        packer = WeightPacker(self._isa, self._packing)
        rows, columns = padding_to_tiles(weight)
        linear = abi.Linear(
            matrix=packer.matrix(weight, bias, name),
            depth=weight.shape[1] + columns,
            columns=weight.shape[0] + rows,
            activation=ACTIVATIONS.index(activation),
            gated=gated,
        )
        return _KernelLinear(self._kernel, linear, packer)


class _KernelLinear:
    def __init__(self, kernel: Kernel, linear: abi.Linear, packer: WeightPacker) -> None:
        self._kernel, self.struct = kernel, linear
        self._packer = packer  # owns the memory that `struct` points to
        self.depth, self.width = linear.depth, linear.columns // (1 + linear.gated)

    def __call__(self, x: Floats, residual: Floats | None = None) -> Floats:
        x, y = np.ascontiguousarray(x), np.empty((len(x), self.width), dtype=np.float32)
        assert x.dtype == np.float32 and x.shape[1] == self.depth
        call = abi.LinearCall(addressof(self.struct), x.ctypes.data, None, y.ctypes.data, len(x))
        if residual is not None:
            residual = np.ascontiguousarray(residual)
            assert residual.dtype == np.float32 and residual.shape == y.shape
            call.residual = residual.ctypes.data
        self._kernel(call)
        return y


@dataclass(frozen=True)
class _RowMaximum:
    # For a weight (rows, columns) that may be padded to tiles.
    kernel: Kernel
    linear: _KernelLinear
    rows: int
    columns: int

    def __call__(self, x: Floats, lengths: Sequence[int]) -> Floats:
        assert x.dtype == np.float32 and x.shape[1] == self.columns
        x = _padded(x, self.linear.depth)
        maxima = np.zeros((len(lengths), self.linear.width), dtype=np.float32)
        sequence_of = np.arange(len(lengths)).repeat(lengths)
        call = abi.RowMaximumCall(
            addressof(self.linear.struct),
            x.ctypes.data,
            sequence_of.ctypes.data,
            maxima.ctypes.data,
            len(x),
        )
        self.kernel(call)
        return maxima[:, : self.rows]


def _padded(x: Floats, width: int) -> Floats:
    return np.ascontiguousarray(np.pad(x, ((0, 0), (0, width - x.shape[1]))))


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

    def __call__(self, x: Floats, residual: Floats | None = None) -> Floats:
        assert x.shape[1] == self.columns
        y = self.linear(_padded(x, self.linear.depth))[:, : self.rows]
        return np.ascontiguousarray(y) if residual is None else y + residual
