"""The transformer encoder, over packed tensors: no padding, no attention mask.

T tokens, D hidden size, H heads, Dh head size.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from models.attention import Attend, choose
from models.config import EncoderConfig
from models.linear import Layout, Linear
from models.packing import Packing
from models.positions import Learned, Positions
from models.weights import Weights

PARTS = ("token", "position", "segment")


@dataclass(frozen=True)
class Norm:
    """Layer normalisation (Ba et al. 2016, arXiv 1607.06450) over the last dimension."""

    weight: Tensor
    bias: Tensor
    eps: float

    def __call__(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)


@dataclass(frozen=True)
class Attention:
    """Multi-head attention, after the queries, keys and values and before the output."""

    num_heads: int
    positions: Positions
    attend: Attend

    def __call__(self, qkv: Tensor, packing: Packing) -> Tensor:
        """(T, 3 * D) -> (T, D)."""
        heads = qkv.view(qkv.shape[0], 3, self.num_heads, -1)
        rotated = self.positions.rotate(heads, packing.positions)
        return self.attend(rotated, packing, self.positions)


@dataclass(frozen=True)
class Layer:
    """Attention and feed-forward network, each added to its input and then normalised."""

    qkv: Linear
    attention: Attention
    output: Linear
    attention_norm: Norm
    up: Linear
    down: Linear
    ffn_norm: Norm

    def __call__(self, x: Tensor, packing: Packing) -> Tensor:
        """(T, D) -> (T, D)."""
        mixed = self.attention(self.qkv(x), packing)
        x = self.attention_norm(self.output(mixed, residual=x))
        return self.ffn_norm(self.down(self.up(x), residual=x))


class Encoder:
    """Token ids to hidden states.

    Vaswani et al. 2017 (arXiv 1706.03762) with the post-norm layers of BERT (arXiv 1810.04805).
    """

    def __init__(
        self, config: EncoderConfig, weights: Weights, layout: Layout, device: torch.device
    ) -> None:
        self.config, self.device = config, device
        self.dtype = layout.dtype
        # The tables stay in float32 in every precision: a lookup is cheap and their sum is exact.
        self._tables = {part: weights[f"{part}_table"].to(device) for part in PARTS}
        build = _Builder(config, weights, layout, device)
        self._norm = build.norm("norm", torch.float32)
        self._positions = Learned(self._tables["position"], self._tables["segment"][0])
        attend = choose(device, layout.dtype, config.head_size, self._positions.biased)
        attention = Attention(config.num_heads, self._positions, attend)
        self._layers = [build.layer(f"layers.{i}", attention) for i in range(config.num_layers)]

    def __call__(self, ids: Tensor, packing: Packing, layer: int | None = None) -> Tensor:
        """Hidden states after `layer` layers (all by default): (T,) -> (T, D)."""
        hidden = self._positions.embed(self._tables["token"][ids], packing.positions)
        hidden = self._norm(hidden).to(self.dtype)
        for block in self._layers[:layer]:
            hidden = block(hidden, packing)
        return hidden

    def part(self, name: str, ids: Tensor, packing: Packing) -> Tensor:
        """One summand of the input, as the checkpoint holds it: (T,) -> (T, D)."""
        rows = {"token": ids, "position": packing.positions, "segment": torch.zeros_like(ids)}
        return self._tables[name][rows[name]]

    def warm(self, rows: int) -> None:
        """Let oneDNN build its kernels for a row count; the layers share them."""
        x = torch.zeros(rows, self.config.hidden_size, dtype=self.dtype, device=self.device)
        layer = self._layers[0]
        layer.qkv(x)
        layer.output(x, residual=x)
        layer.down(layer.up(x), residual=x)


@dataclass(frozen=True)
class _Builder:
    """Makes the parts of an encoder from a checkpoint's tensors."""

    config: EncoderConfig
    weights: Weights
    layout: Layout
    device: torch.device

    def norm(self, name: str, dtype: torch.dtype) -> Norm:
        parts = (self.weights[f"{name}.{part}"] for part in ("weight", "bias"))
        weight, bias = (part.to(self.device, dtype) for part in parts)
        return Norm(weight, bias, self.config.norm_eps)

    def linear(self, *names: str, activation: str = "none") -> Linear:
        """One product for several: their weights one under the other."""
        weight = torch.cat([self.weights[f"{name}.weight"] for name in names])
        bias = torch.cat([self.weights[f"{name}.bias"] for name in names])
        return self.layout(weight, bias, activation)

    def layer(self, name: str, attention: Attention) -> Layer:
        return Layer(
            qkv=self.linear(f"{name}.query", f"{name}.key", f"{name}.value"),
            attention=attention,
            output=self.linear(f"{name}.output"),
            attention_norm=self.norm(f"{name}.attention_norm", self.layout.dtype),
            up=self.linear(f"{name}.up", activation=self.config.activation),
            down=self.linear(f"{name}.down"),
            ffn_norm=self.norm(f"{name}.ffn_norm", self.layout.dtype),
        )
