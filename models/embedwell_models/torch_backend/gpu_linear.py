"""Linear layers in half precision on GPUs, with few kernel launches.

T tokens, B sequences.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from embedwell_models.torch_backend.linear import (
    Linear,
    RowMaximum,
    TorchLinearFactory,
    WeightAndBias,
)
from embedwell_models.torch_backend.sequence_layout import SequenceLayout
from embedwell_models.torch_backend.triton_kernels import gated, row_maximum

_USE_GELU = {"relu": False, "gelu": True, "gelu_tanh": True}


class GpuLinearFactory(TorchLinearFactory):
    """Factory of layers whose activation is part of a matrix product or of one Triton kernel.

    GELU within a product has its tanh form, whose vectors have a cosine of 1 - 2e-6 to the exact
    form: less than half precision loses.
    """

    def __call__(
        self, weight: Tensor, bias: Tensor, activation: str = "none", *, name: str = ""
    ) -> Linear:
        if activation not in _USE_GELU:
            return super().__call__(weight, bias, activation, name=name)
        return _ProductWithActivation(*self._parts(weight, bias), _USE_GELU[activation])

    def gated(
        self, gate: WeightAndBias, up: WeightAndBias, activation: str, *, name: str = ""
    ) -> Linear:
        weight, bias = (torch.cat(parts) for parts in zip(gate, up, strict=True))
        return _GatedProduct(*self._parts(weight, bias), activation)

    def row_maximum(self, weight: Tensor, bias: Tensor, *, name: str = "") -> RowMaximum:
        return _PackedRowMaximum(*self._parts(weight, bias))

    def _parts(self, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        return weight.to(self.device, self.dtype), bias.to(self.device, self.dtype)


class _ProductWithActivation:
    def __init__(self, weight: Tensor, bias: Tensor, use_gelu: bool) -> None:
        self._weight, self._bias, self._use_gelu = weight, bias, use_gelu

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        y: Tensor = torch.ops.aten._addmm_activation(
            self._bias, x, self._weight.T, use_gelu=self._use_gelu
        )
        return y if residual is None else y + residual


class _GatedProduct:
    def __init__(self, weight: Tensor, bias: Tensor, activation: str) -> None:
        self._weight, self._bias, self._activation = weight, bias, activation

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        y = gated.gated(F.linear(x, self._weight, self._bias), self._activation)
        return y if residual is None else y + residual


class _PackedRowMaximum:
    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        self._weight, self._bias = weight, bias

    def __call__(self, x: Tensor, layout: SequenceLayout) -> Tensor:
        ends = layout.cu_seqlens[: len(layout.host_lengths) + 1]
        return row_maximum.row_maximum(x, self._weight, self._bias, ends)
