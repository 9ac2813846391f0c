"""Linear layers by precision: the same mathematics, laid out for the processor at hand."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True)
class Activation:
    """A function in torch, its number in kernels/vector.h, and oneDNN's name and algorithm."""

    function: Callable[[Tensor], Tensor]
    number: int
    fused: tuple[str, str] | None = None


def _gelu_sigmoid(x: Tensor) -> Tensor:
    return x * torch.sigmoid(1.702 * x)


ACTIVATIONS: Mapping[str, Activation] = {  # by the names of models/config/activations.py
    "none": Activation(lambda x: x, 0, ("none", "")),
    "gelu": Activation(F.gelu, 1, ("gelu", "none")),
    "gelu_tanh": Activation(partial(F.gelu, approximate="tanh"), 2, ("gelu", "tanh")),
    "gelu_sigmoid": Activation(_gelu_sigmoid, 5),
    "relu": Activation(F.relu, 3, ("relu", "")),
    "silu": Activation(F.silu, 4, ("swish", "")),
    "tanh": Activation(torch.tanh, 6, ("tanh", "")),
}


class Linear(Protocol):
    """x W^T + b, then the activation, or plus a residual: (T, in) -> (T, out)."""

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor: ...


Affine = tuple[Tensor, Tensor]
"""A float32 weight (out, in) and bias (out,)."""


class Layout(Protocol):
    """Builds a Linear from float32 weight (out, in), bias (out,) and an activation's name.

    name: of the linear layer itself, for a layout that treats each in its own way.
    """

    dtype: torch.dtype

    def __call__(
        self, weight: Tensor, bias: Tensor, activation: str = "none", *, name: str = ""
    ) -> Linear: ...

    def gated(self, gate: Affine, up: Affine, activation: str, *, name: str = "") -> Linear:
        """act(x Wg^T + bg) * (x Wu^T + bu), after Shazeer 2020 (arXiv 2002.05202)."""
        # Two products: the activation of half of one is computed by other code, and is other bits,
        # for one row than for many.
        return _GatedLinear(self(*gate, activation, name=name), self(*up, name=name))


class _GatedLinear:
    def __init__(self, gate: Linear, up: Linear) -> None:
        self._gate, self._up = gate, up

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        y = self._gate(x) * self._up(x)
        return y if residual is None else y + residual


class Plain(Layout):
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
        self.function = ACTIVATIONS[activation].function

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        y = self.function(F.linear(x, self.weight, self.bias))
        return y if residual is None else y + residual


class Prepacked(Layout):
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
        chosen, nothing = ACTIVATIONS[activation], ACTIVATIONS["none"]
        self.name, self.algorithm = chosen.fused or ("none", "")
        self.function = (nothing if chosen.fused else chosen).function

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        ops = torch.ops.mkldnn._linear_pointwise
        if residual is None:
            return self.function(ops(x, self.weight, self.bias, self.name, [], self.algorithm))
        return ops.binary(x, residual, self.weight, self.bias, "add")  # type: ignore[no-any-return]


class Observed(Layout):
    """Plain float32 that remembers how large each input was, by the layer's name."""

    dtype = torch.float32

    def __init__(self) -> None:
        self._inputs: dict[str, _Inputs] = {}

    def __call__(
        self, weight: Tensor, bias: Tensor, activation: str = "none", *, name: str = ""
    ) -> Linear:
        self._inputs[name] = _Inputs(weight.shape[1])
        return _ObservedLinear(_PlainLinear(weight, bias, activation), self._inputs[name])

    def sizes(self) -> dict[str, Tensor]:
        """(in,) of each layer: the fourth root of the mean of the fourth powers.

        Rare large inputs count more than in a mean of squares, but no single one decides, as it
        does in a maximum.
        """
        return {name: inputs.sizes() for name, inputs in self._inputs.items()}


class _Inputs:
    def __init__(self, width: int) -> None:
        self._powers, self._rows = torch.zeros(width, dtype=torch.float64), 0

    def add(self, x: Tensor) -> None:
        self._powers += x.double().square().square().sum(dim=0)
        self._rows += len(x)

    def sizes(self) -> Tensor:
        return (self._powers / max(self._rows, 1)).sqrt().sqrt().float()


class _ObservedLinear:
    def __init__(self, linear: _PlainLinear, inputs: _Inputs) -> None:
        self._linear, self._inputs = linear, inputs

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        self._inputs.add(x)
        return self._linear(x, residual)


def fastest(device: torch.device, dtype: torch.dtype) -> Layout:
    """The layout that a device is fastest with; on a processor, a row's bits depend on it alone."""
    onednn = device.type == "cpu" and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return Prepacked(dtype) if onednn else Plain(device, dtype)
