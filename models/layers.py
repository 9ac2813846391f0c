"""The layers of an encoder on torch alone, over packed tensors, on any device.

T tokens, D hidden size, H heads, Dh head size.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from models.attention import attend
from models.config import EncoderConfig
from models.linear import Layout, Linear
from models.packing import Packing, round_up
from models.positions import Positions
from models.weights import Weights

MATRICES: Mapping[str, tuple[str, ...]] = {  # one product for several of the checkpoint's
    "qkv": ("query", "key", "value"),
    "output": ("output",),
    "up": ("up",),
    "down": ("down",),
}


@dataclass(frozen=True)
class Norm:
    """Layer normalisation (Ba et al. 2016, arXiv 1607.06450) over the last dimension."""

    weight: Tensor
    bias: Tensor
    eps: float

    def __call__(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)


@dataclass(frozen=True)
class Layer:
    """Attention and feed-forward network, each added to its input and then normalised."""

    qkv: Linear
    output: Linear
    attention_norm: Norm
    up: Linear
    down: Linear
    ffn_norm: Norm
    num_heads: int
    positions: Positions

    def __call__(self, x: Tensor, packing: Packing) -> Tensor:
        """(T, D) -> (T, D)."""
        x = self.attention_norm(self.output(self._mix(self.qkv(x), packing), residual=x))
        return self.ffn_norm(self.down(self.up(x), residual=x))

    def _mix(self, qkv: Tensor, packing: Packing) -> Tensor:
        heads = qkv.view(qkv.shape[0], 3, self.num_heads, -1)
        rotated = self.positions.rotate(heads, packing.positions)
        return attend(rotated, packing, self.positions)


class TorchLayers:
    """The layers of an encoder, in the precision of their linear layout."""

    def __init__(
        self,
        config: EncoderConfig,
        weights: Weights,
        positions: Positions,
        layout: Layout,
        device: torch.device,
    ) -> None:
        self.dtype = layout.dtype
        self._device, self._width = device, config.hidden_size
        build = _Builder(config, weights, positions, layout, device)
        self._layers = [build.layer(f"layers.{i}") for i in range(config.num_layers)]

    def __len__(self) -> int:
        return len(self._layers)

    def __call__(self, hidden: Tensor, packing: Packing, count: int) -> Tensor:
        """The first `count` layers: (T, D) -> (T, D), in `dtype`."""
        for layer in self._layers[:count]:
            hidden = layer(hidden, packing)
        return hidden

    @torch.inference_mode()
    def warm(self) -> None:
        """Let oneDNN build its kernels for the commonest row counts; the layers share them."""
        layer = self._layers[0]
        for rows in sorted({round_up(tokens) for tokens in range(1, 513)}):
            x = torch.zeros(rows, self._width, dtype=self.dtype, device=self._device)
            layer.qkv(x)
            layer.output(x, residual=x)
            layer.down(layer.up(x), residual=x)


@dataclass(frozen=True)
class _Builder:
    config: EncoderConfig
    weights: Weights
    positions: Positions
    layout: Layout
    device: torch.device

    def norm(self, name: str) -> Norm:
        parts = (self.weights[f"{name}.{part}"] for part in ("weight", "bias"))
        weight, bias = (part.to(self.device, self.layout.dtype) for part in parts)
        return Norm(weight, bias, self.config.norm_eps)

    def linear(self, layer: str, name: str, activation: str = "none") -> Linear:
        return self.layout(*matrix(self.weights, layer, name), activation, name=f"{layer}.{name}")

    def layer(self, name: str) -> Layer:
        return Layer(
            qkv=self.linear(name, "qkv"),
            output=self.linear(name, "output"),
            attention_norm=self.norm(f"{name}.attention_norm"),
            up=self.linear(name, "up", self.config.activation),
            down=self.linear(name, "down"),
            ffn_norm=self.norm(f"{name}.ffn_norm"),
            num_heads=self.config.num_heads,
            positions=self.positions,
        )


def matrix(weights: Weights, layer: str, name: str) -> tuple[Tensor, Tensor]:
    """Weight (out, in) and bias (out,) of a product: those of its parts one under the other."""
    parts = [f"{layer}.{part}" for part in MATRICES[name]]
    weight = torch.cat([weights[f"{part}.weight"] for part in parts])
    return weight, torch.cat([weights[f"{part}.bias"] for part in parts])
