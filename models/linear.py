"""Linear layers by precision: the same mathematics, laid out for the processor at hand."""

from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from models.errors import ModelError

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
    """Builds a Linear from float32 weight (out, in), bias (out,) and an activation's name."""

    dtype: torch.dtype

    def __call__(self, weight: Tensor, bias: Tensor, activation: str = "none") -> Linear: ...


class Plain:
    """Row-major weights, on any device."""

    def __init__(self, device: torch.device, dtype: torch.dtype) -> None:
        self.device, self.dtype = device, dtype

    def __call__(self, weight: Tensor, bias: Tensor, activation: str = "none") -> Linear:
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

    def __call__(self, weight: Tensor, bias: Tensor, activation: str = "none") -> Linear:
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


def choose(device: torch.device, dtype: str) -> Layout:
    """The layout for a device and a precision's name, 'auto' meaning the device's default.

    Raises ModelError where the device cannot compute in that precision at full speed.
    """
    chosen = dtype if dtype != "auto" else "float32" if device.type == "cpu" else "bfloat16"
    if chosen not in _supported(device):
        raise ModelError(
            f"dtype {chosen} is not supported on this {device.type}; "
            f"supported: {', '.join(_supported(device))}"
        )
    if device.type == "cpu" and torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return Prepacked(getattr(torch, chosen))
    return Plain(device, getattr(torch, chosen))


def _supported(device: torch.device) -> list[str]:
    if device.type != "cpu":
        return ["float32", "bfloat16", "float16"]
    # Emulated bfloat16 is up to a hundred times slower than float32, so it is refused.
    native = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    return ["float32", "bfloat16"] if native else ["float32"]
