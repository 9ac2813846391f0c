"""The transformer encoder, over packed tensors: no padding, no attention mask.

T tokens, D hidden size, H heads, Dh head size.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from models.attention import attend
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
class Layer:
    """Attention and feed-forward network, each added to its input and then normalised."""

    qkv: Linear
    output: Linear
    attention_norm: Norm
    up: Linear
    down: Linear
    ffn_norm: Norm

    def __call__(self, x: Tensor, packing: Packing, positions: Positions, heads: int) -> Tensor:
        """(T, D) -> (T, D)."""
        qkv = self.qkv(x).view(x.shape[0], 3, heads, -1)
        mixed = attend(positions.rotate(qkv, packing.positions), packing, positions)
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
        self._norm = _norm(weights, "norm", config, device, torch.float32)
        self._positions = Learned(self._tables["position"], self._tables["segment"][0])
        self._layers = [
            _layer(weights, f"layers.{i}", config, layout, device) for i in range(config.num_layers)
        ]

    def __call__(self, ids: Tensor, packing: Packing, layer: int | None = None) -> Tensor:
        """Hidden states after `layer` layers (all by default): (T,) -> (T, D)."""
        hidden = self._positions.embed(self._tables["token"][ids], packing.positions)
        hidden = self._norm(hidden).to(self.dtype)
        for block in self._layers[:layer]:
            hidden = block(hidden, packing, self._positions, self.config.num_heads)
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


def _norm(
    weights: Weights, name: str, config: EncoderConfig, device: torch.device, dtype: torch.dtype
) -> Norm:
    weight, bias = (weights[f"{name}.{part}"].to(device, dtype) for part in ("weight", "bias"))
    return Norm(weight, bias, config.norm_eps)


def _layer(
    weights: Weights, name: str, config: EncoderConfig, layout: Layout, device: torch.device
) -> Layer:
    def linear(*parts: str, activation: str = "none") -> Linear:
        weight = torch.cat([weights[f"{name}.{part}.weight"] for part in parts])
        bias = torch.cat([weights[f"{name}.{part}.bias"] for part in parts])
        return layout(weight, bias, activation)

    def norm(part: str) -> Norm:
        return _norm(weights, f"{name}.{part}", config, device, layout.dtype)

    return Layer(
        qkv=linear("query", "key", "value"),
        output=linear("output"),
        attention_norm=norm("attention_norm"),
        up=linear("up", activation=config.activation),
        down=linear("down"),
        ffn_norm=norm("ffn_norm"),
    )
