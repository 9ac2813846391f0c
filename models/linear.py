"""Linear layers by precision: the same mathematics, laid out for the processor at hand."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from models.activations import ACTIVATIONS

_FUSED = {  # activations that oneDNN computes with the product: its name, its algorithm
    "none": ("none", ""),
    "gelu": ("gelu", "none"),
    "gelu_tanh": ("gelu", "tanh"),
    "relu": ("relu", ""),
}
_FUNCTIONS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "none": lambda x: x,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "gelu_sigmoid": lambda x: x * torch.sigmoid(1.702 * x),
    "relu": F.relu,
    "silu": F.silu,
}


def function(activation: str) -> Callable[[Tensor], Tensor]:
    """The activation of a name in config.json, or 'none'."""
    return _FUNCTIONS[ACTIVATIONS.get(activation, "none")]


class Linear(Protocol):
    """x W^T + b, then the activation, or plus a residual: (T, in) -> (T, out)."""

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor: ...


Matrix = tuple[Tensor, Tensor]


class Layout(Protocol):
    """Builds a Linear from float32 weight (out, in), bias (out,) and an activation's name.

    name: of the linear layer itself, for a layout that treats each in its own way.
    """

    dtype: torch.dtype

    def __call__(
        self, weight: Tensor, bias: Tensor, activation: str = "none", *, name: str = ""
    ) -> Linear: ...

    def gated(self, gate: Matrix, up: Matrix, activation: str, *, name: str = "") -> Linear:
        """act(x gate^T + b) * (x up^T + c); each a weight and a bias."""
        ...


@dataclass(frozen=True)
class _Gated:
    """One product for both, multiplied with each other: Shazeer 2020, arXiv 2002.05202."""

    both: Linear
    act: Callable[[Tensor], Tensor]

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        gate, up = self.both(x).chunk(2, dim=-1)
        y = self.act(gate) * up
        return y if residual is None else y + residual


def _gated(layout: Layout, gate: Matrix, up: Matrix, activation: str, name: str) -> Linear:
    weight, bias = (torch.cat(parts) for parts in zip(gate, up, strict=True))
    return _Gated(layout(weight, bias, name=name), function(activation))


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

    def gated(self, gate: Matrix, up: Matrix, activation: str, *, name: str = "") -> Linear:
        return _gated(self, gate, up, activation, name)


class _PlainLinear:
    def __init__(self, weight: Tensor, bias: Tensor, activation: str) -> None:
        self.weight, self.bias, self.act = weight, bias, function(activation)

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        y = self.act(F.linear(x, self.weight, self.bias))
        return y if residual is None else y + residual


class Prepacked:
    """Weights in oneDNN's blocked layout, activation or residual fused into the product."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype = dtype

    def __call__(
        self, weight: Tensor, bias: Tensor, activation: str = "none", *, name: str = ""
    ) -> Linear:
        return _PrepackedLinear(weight.to(self.dtype), bias.to(self.dtype), activation)

    def gated(self, gate: Matrix, up: Matrix, activation: str, *, name: str = "") -> Linear:
        return _gated(self, gate, up, activation, name)


class _PrepackedLinear:
    _ROWS = 512  # the batch size that the blocked layout is chosen for

    def __init__(self, weight: Tensor, bias: Tensor, activation: str) -> None:
        self.weight = torch.ops.mkldnn._reorder_linear_weight(weight, self._ROWS)
        self.bias = bias
        known = ACTIVATIONS.get(activation, "none")
        self.name, self.algorithm = _FUSED.get(known, _FUSED["none"])
        self.act = _FUNCTIONS["none" if known in _FUSED else known]

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        ops = torch.ops.mkldnn._linear_pointwise
        if residual is None:
            return self.act(ops(x, self.weight, self.bias, self.name, [], self.algorithm))
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

    def gated(self, gate: Matrix, up: Matrix, activation: str, *, name: str = "") -> Linear:
        return _gated(self, gate, up, activation, name)


class _ObservedLinear:
    def __init__(self, linear: _PlainLinear, peaks: Tensor) -> None:
        self._linear, self._peaks = linear, peaks

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        self._peaks.copy_(self._peaks.maximum(x.abs().amax(dim=0)))
        return self._linear(x, residual)


def fastest(device: torch.device, dtype: torch.dtype) -> Layout:
    """The layout that a device is fastest with; on a processor, a row's bits depend on it alone."""
    onednn = device.type == "cpu" and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return Prepacked(dtype) if onednn else Plain(device, dtype)
