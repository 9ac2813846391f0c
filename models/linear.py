"""Linear layers by precision: the same mathematics, laid out for the processor at hand."""

from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

ACTIVATIONS = {  # name in config.json -> (oneDNN's name, its algorithm)
    "none": ("none", ""),
    "gelu": ("gelu", "none"),
    "gelu_new": ("gelu", "tanh"),
    "gelu_pytorch_tanh": ("gelu", "tanh"),
    "relu": ("relu", ""),
}


class Linear(Protocol):
    """x W^T + b, then the activation, or plus a residual: (T, in) -> (T, out)."""

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor: ...


class Layout(Protocol):
    """Builds a Linear from float32 weight (out, in), bias (out,) and an activation's name.

    name: of the linear layer itself, for a layout that treats each in its own way.
    """

    dtype: torch.dtype

    def __call__(
        self, weight: Tensor, bias: Tensor, activation: str = "none", *, name: str = ""
    ) -> Linear: ...


class Plain:
    """Row-major weights, on any device."""

    def __init__(self, device: torch.device, dtype: torch.dtype) -> None:
        self.device, self.dtype = device, dtype

    def __call__(
        self, weight: Tensor, bias: Tensor, activation: str = "none", *, name: str = ""
    ) -> Linear:
        return _PlainLinear(
            weight.to(self.device, self.dtype), bias.to(self.device, self.dtype), activation
        )


class _PlainLinear:
    def __init__(self, weight: Tensor, bias: Tensor, activation: str) -> None:
        self.weight, self.bias = weight, bias
        self.name, self.algorithm = ACTIVATIONS[activation]

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        y = F.linear(x, self.weight, self.bias)
        if self.name == "gelu":
            y = F.gelu(y, approximate=self.algorithm)
        elif self.name == "relu":
            y = F.relu(y)
        return y if residual is None else y + residual


class Prepacked:
    """Weights in oneDNN's blocked layout, activation or residual fused into the product."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype = dtype

    def __call__(
        self, weight: Tensor, bias: Tensor, activation: str = "none", *, name: str = ""
    ) -> Linear:
        return _PrepackedLinear(weight.to(self.dtype), bias.to(self.dtype), activation)


class _PrepackedLinear:
    _ROWS = 512  # the batch size that the blocked layout is chosen for

    def __init__(self, weight: Tensor, bias: Tensor, activation: str) -> None:
        self.weight = torch.ops.mkldnn._reorder_linear_weight(weight, self._ROWS)
        self.bias = bias
        self.name, self.algorithm = ACTIVATIONS[activation]

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        ops = torch.ops.mkldnn._linear_pointwise
        if residual is None:
            return ops(x, self.weight, self.bias, self.name, [], self.algorithm)  # type: ignore[no-any-return]
        return ops.binary(x, residual, self.weight, self.bias, "add")  # type: ignore[no-any-return]


class Observed:
    """Plain float32 that remembers the largest magnitude of each input, by the layer's name."""

    dtype = torch.float32

    def __init__(self) -> None:
        self.peaks: dict[str, Tensor] = {}

    def __call__(
        self, weight: Tensor, bias: Tensor, activation: str = "none", *, name: str = ""
    ) -> Linear:
        self.peaks[name] = torch.zeros(weight.shape[1])
        return _ObservedLinear(_PlainLinear(weight, bias, activation), self.peaks[name])


class _ObservedLinear:
    def __init__(self, linear: _PlainLinear, peaks: Tensor) -> None:
        self._linear, self._peaks = linear, peaks

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        self._peaks.copy_(self._peaks.maximum(x.abs().amax(dim=0)))
        return self._linear(x, residual)
