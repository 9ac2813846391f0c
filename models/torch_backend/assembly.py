"""The layers of an encoder, put together from the tensors of a checkpoint."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import product

import torch
from torch import Tensor

from models.checkpoint.weights import Weights
from models.config.encoder_config import EncoderConfig
from models.encoder.position_tensors import of_layer
from models.encoder.sequence_layout import Packing, round_up
from models.torch_backend.attention import Attend, Rules, attend
from models.torch_backend.flash_attention import Varlen, choose
from models.torch_backend.layers import ARRANGEMENTS, Attention, FeedForward, Layer
from models.torch_backend.linear import Layout, Linear
from models.torch_backend.norm import Joined, Norm, norm

Choose = Callable[[Rules, int, torch.dtype, torch.device], Attend]
"""The attention of a layer with such rules and head size, in a precision, on a device."""


class TorchLayers:
    """The layers of an encoder, in the precision of their linear layout."""

    def __init__(
        self,
        config: EncoderConfig,
        weights: Weights,
        layout: Layout,
        device: torch.device,
        attention: Choose = choose,
    ) -> None:
        self.dtype = layout.dtype
        self._device, self._width = device, config.hidden_size
        build = _Builder(config, weights, layout, device, attention)
        self._layers = [build.layer(i) for i in range(config.num_layers)]
        self._final = build.norm("final_norm")

    def __len__(self) -> int:
        return len(self._layers)

    @property
    def steady(self) -> bool:
        """Whether batches of one shape launch the same kernels, so that these can be recorded."""
        return {type(layer.attention.attend) for layer in self._layers} == {Varlen}

    def prepare(self, packing: Packing) -> None:
        """Lay out what attention reads of a packing, while the device may compute another."""
        if any(layer.attention.attend is attend for layer in self._layers):
            _ = packing.groups

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
    choose: Choose
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
        config, rules = self.config, self.rules(name, index)
        return Attention(
            qkv=self.linear(name, "qkv"),
            output=self.linear(name, "output"),
            query_norm=self.head_norm(f"{name}.query_norm"),
            key_norm=self.head_norm(f"{name}.key_norm"),
            heads=(config.num_heads, config.num_kv_heads, config.num_kv_heads),
            rules=rules,
            attend=self.choose(rules, config.head_size, self.layout.dtype, self.device),
        )

    def rules(self, name: str, index: int) -> Rules:
        config = self.config
        like = torch.empty(0, dtype=self.layout.dtype, device=self.device)
        return Rules(
            positions=of_layer(config, self.weights, name, config.scheme(index), like),
            scale=config.scale,
            causal=config.causal,
            reach=config.reaches[index],
            softcap=config.softcap,
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
