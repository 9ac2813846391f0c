"""The layers of an encoder on torch alone, over packed tensors, on any device.

T tokens, D hidden size, H heads, Dh head size, I the width of the feed-forward network.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product

import torch
from torch import Tensor

from models.attention import Rules, attend
from models.config import EncoderConfig
from models.linear import Layout, Linear
from models.norm import Joined, Norm, norm
from models.packing import Packing, round_up
from models.positions import of_layer
from models.weights import Weights


@dataclass(frozen=True)
class Attention:
    """Multi-head attention, with as many heads of keys as of queries or fewer (arXiv 2305.13245).

    qkv: (T, D) -> (T, (H + 2 * heads of keys) * Dh). output: (T, H * Dh) -> (T, D).
    """

    qkv: Linear
    output: Linear
    query_norm: Norm
    key_norm: Norm
    heads: tuple[int, int, int]
    rules: Rules

    def __call__(self, x: Tensor, packing: Packing, residual: Tensor | None = None) -> Tensor:
        """(T, D) -> (T, D)."""
        qkv = self.qkv(x).view(len(x), sum(self.heads), -1)
        query, key, value = torch.split(qkv, list(self.heads), dim=1)
        query, key = self.query_norm(query), self.key_norm(key)
        query, key = self.rules.positions.rotate(query, key, packing)
        return self.output(attend(query, key, value, packing, self.rules), residual=residual)


@dataclass(frozen=True)
class FeedForward:
    """Two products with an activation between them, or three (GLU, Shazeer 2020, 2002.05202)."""

    up: Linear
    down: Linear

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """(T, D) -> (T, D)."""
        return self.down(self.up(x), residual=residual)


@dataclass(frozen=True)
class Layer:
    """Attention and feed-forward network, each added to its input and then normalised."""

    attention: Attention
    attention_norm: Norm
    ffn: FeedForward
    ffn_norm: Norm
    attention_exit: Norm
    ffn_exit: Norm

    def __call__(self, x: Tensor, packing: Packing) -> Tensor:
        """(T, D) -> (T, D)."""
        x = self.attention_norm(self.attention(x, packing, residual=x))
        return self.ffn_norm(self.ffn(x, residual=x))


class TwiceLayer(Layer):
    """What the attention gives is normalised with its input, and their sum once more.

    Jina's code for programming languages.
    """

    def __call__(self, x: Tensor, packing: Packing) -> Tensor:
        x = self.attention_norm(x + self.attention_exit(self.attention(x, packing, residual=x)))
        return self.ffn_norm(self.ffn(x, residual=x))


class PreLayer(Layer):
    """Each part reads its input normalised (Xiong et al. 2020, arXiv 2002.04745)."""

    def __call__(self, x: Tensor, packing: Packing) -> Tensor:
        x = self.attention(self.attention_norm(x), packing, residual=x)
        return self.ffn(self.ffn_norm(x), residual=x)


class ParallelLayer(Layer):
    """Both parts read the layer's input (GPT-NeoX; Black et al. 2022, arXiv 2204.06745)."""

    def __call__(self, x: Tensor, packing: Packing) -> Tensor:
        mixed = self.attention(self.attention_norm(x), packing, residual=x)
        return self.ffn(self.ffn_norm(x), residual=mixed)


class SharedLayer(Layer):
    """Both parts read the layer's input through one norm (GPT-J)."""

    def __call__(self, x: Tensor, packing: Packing) -> Tensor:
        read = self.attention_norm(x)
        return self.ffn(read, residual=self.attention(read, packing, residual=x))


class SandwichLayer(Layer):
    """Norms before and after each part (Ding et al. 2021, arXiv 2105.13290; Gemma 2)."""

    def __call__(self, x: Tensor, packing: Packing) -> Tensor:
        x = x + self.attention_exit(self.attention(self.attention_norm(x), packing))
        return x + self.ffn_exit(self.ffn(self.ffn_norm(x)))


ARRANGEMENTS: Mapping[str, type[Layer]] = {
    "post": Layer,
    "twice": TwiceLayer,
    "pre": PreLayer,
    "parallel": ParallelLayer,
    "shared": SharedLayer,
    "sandwich": SandwichLayer,
}


class TorchLayers:
    """The layers of an encoder, in the precision of their linear layout."""

    def __init__(
        self, config: EncoderConfig, weights: Weights, layout: Layout, device: torch.device
    ) -> None:
        self.dtype = layout.dtype
        self._device, self._width = device, config.hidden_size
        build = _Builder(config, weights, layout, device)
        self._layers = [build.layer(i) for i in range(config.num_layers)]
        self._final = build.norm("final_norm")

    def __len__(self) -> int:
        return len(self._layers)

    def __call__(self, hidden: Tensor, packing: Packing, count: int) -> Tensor:
        """The first `count` layers: (T, D) -> (T, D), in `dtype`; normalised after the last one."""
        for layer in self._layers[:count]:
            hidden = layer(hidden, packing)
        return self._final(hidden) if count == len(self) else hidden

    @torch.inference_mode()
    def warm(self) -> None:
        """Let oneDNN build its kernels for the commonest row counts; the layers share them."""
        sizes = sorted({round_up(tokens) for tokens in range(1, 513)})
        for layer, rows in product(self._layers[:1], sizes):
            x = torch.zeros(rows, self._width, dtype=self.dtype, device=self._device)
            heads = layer.attention.heads
            mixed = layer.attention.qkv(x).view(rows, sum(heads), -1)
            layer.attention.output(mixed[:, : heads[0]].flatten(1), residual=x)
            layer.ffn(x, residual=x)


MATRICES: Mapping[str, tuple[str, ...]] = {  # one product for several of the checkpoint's
    "qkv": ("query", "key", "value"),
    "output": ("output",),
    "gate": ("gate",),
    "up": ("up",),
    "down": ("down",),
}


@dataclass(frozen=True)
class _Builder:
    config: EncoderConfig
    weights: Weights
    layout: Layout
    device: torch.device
    built: dict[str, Linear] = field(default_factory=dict)

    def layer(self, index: int) -> Layer:
        config = self.config
        name = f"layers.{index * config.distinct_layers // config.num_layers}"
        return ARRANGEMENTS[config.arrangement](
            attention=self.attention(name, index),
            attention_norm=self.norm(f"{name}.attention_norm"),
            ffn=FeedForward(self.up(name), self.linear(name, "down")),
            ffn_norm=self.norm(f"{name}.ffn_norm"),
            attention_exit=self.norm(f"{name}.attention_exit_norm"),
            ffn_exit=self.norm(f"{name}.ffn_exit_norm"),
        )

    def attention(self, name: str, index: int) -> Attention:
        config = self.config
        rules = Rules(
            positions=of_layer(config, self.weights, name, config.scheme(index), self.device),
            scale=config.scale,
            causal=config.causal,
            reach=config.reaches[index],
            softcap=config.softcap,
        )
        return Attention(
            qkv=self.linear(name, "qkv"),
            output=self.linear(name, "output"),
            query_norm=self.head_norm(f"{name}.query_norm"),
            key_norm=self.head_norm(f"{name}.key_norm"),
            heads=(config.num_heads, config.num_kv_heads, config.num_kv_heads),
            rules=rules,
        )

    def norm(self, name: str) -> Norm:
        return norm(self.config, self.weights, name, self.device, self.layout.dtype)

    def head_norm(self, name: str) -> Norm:
        found, weight = self.norm(name), self.weights.get(f"{name}.weight")
        joined = weight is not None and len(weight) != self.config.head_size
        return Joined(found) if joined else found

    def up(self, layer: str) -> Linear:
        name, activation = f"{layer}.up", self.config.activation
        if not self.config.gated:
            return self.linear(layer, "up", activation)
        if name not in self.built:
            gate, up = (matrix(self.weights, layer, part) for part in ("gate", "up"))
            self.built[name] = self.layout.gated(gate, up, activation, name=name)
        return self.built[name]

    def linear(self, layer: str, part: str, activation: str = "none") -> Linear:
        # Layers that share their weights share the product, too.
        name = f"{layer}.{part}"
        if name not in self.built:
            parts = matrix(self.weights, layer, part)
            self.built[name] = self.layout(*parts, activation, name=name)
        return self.built[name]


def matrix(weights: Weights, layer: str, name: str) -> tuple[Tensor, Tensor]:
    """Weight (out, in) and bias (out,) of a product: those of its parts one under the other."""
    parts = [f"{layer}.{part}" for part in MATRICES[name]]
    rows = [weights[f"{part}.weight"] for part in parts]
    biases = [
        weights.get(f"{part}.bias", row.new_zeros(len(row)))
        for part, row in zip(parts, rows, strict=True)
    ]
    return torch.cat(rows), torch.cat(biases)
