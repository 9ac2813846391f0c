"""Linear layers on torch, with weights in a layout for the device and the precision."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from embedwell_models.torch_backend.norm import Sum
from embedwell_models.torch_backend.sequence_layout import SequenceLayout
from embedwell_models.torch_backend.text_blocks import pool_by_text


@dataclass(frozen=True)
class Activation:
    """Activation: its torch function, and its name and algorithm in oneDNN."""

    function: Callable[[Tensor], Tensor]
    fused: tuple[str, str] | None = None


def _gelu_sigmoid(x: Tensor) -> Tensor:
    return x * torch.sigmoid(1.702 * x)


ACTIVATIONS: Mapping[str, Activation] = {  # names in models/embedwell_models/config/layer_spec.py
    "none": Activation(lambda x: x, ("none", "")),
    "gelu": Activation(F.gelu, ("gelu", "none")),
    "gelu_tanh": Activation(partial(F.gelu, approximate="tanh"), ("gelu", "tanh")),
    "gelu_sigmoid": Activation(_gelu_sigmoid),
    "relu": Activation(F.relu, ("relu", "")),
    "silu": Activation(F.silu, ("swish", "")),
    "tanh": Activation(torch.tanh, ("tanh", "")),
}


class Linear(Protocol):
    """x W^T + b, then the activation, or plus a residual: (T, in) -> (T, out)."""

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor: ...


class RowMaximum(Protocol):
    """Compute the maximum of 0 and x W^T + b over each sequence: (T, in) -> (B, out)."""

    def __call__(self, x: Tensor, layout: SequenceLayout) -> Tensor: ...


@dataclass(frozen=True)
class OutputLinear:
    """Last linear layer of a branch, whose output is added to a residual.

    fuses_residual: whether its product adds the residual; otherwise the sum waits for its norm.
    """

    linear: Linear
    fuses_residual: bool

    def __call__(self, x: Tensor, residual: Tensor | None) -> Sum:
        """Apply it to packed rows: (T, in) -> (T, D)."""
        if self.fuses_residual:
            return Sum(self.linear(x, residual=residual))
        return Sum(self.linear(x), residual)


WeightAndBias = tuple[Tensor, Tensor]
"""Float32 weight (out, in) and bias (out,)."""


class LinearFactory(Protocol):
    """Factory of linear layers from float32 weight (out, in), bias (out,) and activation name.

    name: name of the linear layer, for factories that treat layers differently.
    fuses_residual: whether a product adds the residual at no cost.
    """

    dtype: torch.dtype
    fuses_residual: bool = False

    def __call__(
        self, weight: Tensor, bias: Tensor, activation: str = "none", *, name: str = ""
    ) -> Linear: ...

    def gated(
        self, gate: WeightAndBias, up: WeightAndBias, activation: str, *, name: str = ""
    ) -> Linear:
        """Build act(x Wg^T + bg) * (x Wu^T + bu), after Shazeer 2020 (arXiv 2002.05202)."""
        # Two products, because torch's activation of half of a fused product has different bits for
        # one row and for many rows.
        return _GatedLinear(self(*gate, activation, name=name), self(*up, name=name))

    def row_maximum(self, weight: Tensor, bias: Tensor, *, name: str = "") -> RowMaximum:
        """Build the maximum of 0 and a linear layer over the rows of each sequence."""
        return _RowMaximum(self(weight, bias, name=name))


@dataclass(frozen=True)
class _RowMaximum:
    linear: Linear

    def __call__(self, x: Tensor, layout: SequenceLayout) -> Tensor:
        return pool_by_text(x, layout, lambda rows: self.linear(rows).relu(), "max")


class _GatedLinear:
    def __init__(self, gate: Linear, up: Linear) -> None:
        self._gate, self._up = gate, up

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        y = self._gate(x) * self._up(x)
        return y if residual is None else y + residual


class TorchLinearFactory(LinearFactory):
    """Factory of linear layers with row-major weights, for any device."""

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


class OneDnnLinearFactory(LinearFactory):
    """Factory of linear layers in oneDNN's blocked layout, with fused activation or residual."""

    fuses_residual = True

    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype = dtype

    def __call__(
        self, weight: Tensor, bias: Tensor, activation: str = "none", *, name: str = ""
    ) -> Linear:
        return _PrepackedLinear(weight.to(self.dtype), bias.to(self.dtype), activation)


class _PrepackedLinear:
    _ROWS = 512  # number of rows for which oneDNN chooses the layout

    def __init__(self, weight: Tensor, bias: Tensor, activation: str) -> None:
        self.weight = torch.ops.mkldnn._reorder_linear_weight(weight, self._ROWS)
        self.bias = bias
        chosen, none = ACTIVATIONS[activation], ACTIVATIONS["none"]
        self.name, self.algorithm = chosen.fused or ("none", "")
        self.function = (none if chosen.fused else chosen).function

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        ops = torch.ops.mkldnn._linear_pointwise
        if residual is None:
            return self.function(ops(x, self.weight, self.bias, self.name, [], self.algorithm))
        return ops.binary(x, residual, self.weight, self.bias, "add")  # type: ignore[no-any-return]
