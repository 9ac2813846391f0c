"""Funnel Transformer (Dai et al. 2020, arXiv 2006.03236): each block has fewer positions.

T tokens, D width, H heads, Dh head size.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from embedwell_models.classic.funnel import family
from embedwell_models.classic.funnel.layer import DistanceKeys, FunnelLayer
from embedwell_models.classic.funnel.layout import FunnelLayout
from embedwell_models.classic.own_layers_encoder import OwnLayersEncoder, PooledStates
from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.encoder.batch import Batch
from embedwell_models.model_description import ModelDescription
from embedwell_models.torch_backend.linear import Linear, LinearFactory
from embedwell_models.torch_backend.norm import Norm, build_norm
from embedwell_models.vectors import Floats


@dataclass(frozen=True)
class FunnelOptions:
    """Order of the layers.

    layers: (block, number in the block) of each applied layer. first: number of layers before the
    state that is added to the upsampled last state. decoder_layers: number of layers of the
    decoder; 0 without a decoder.
    """

    layers: Sequence[tuple[int, int]]
    first: int
    decoder_layers: int

    @property
    def blocks(self) -> int:
        """Number of blocks; each block but the first pools pairs of positions."""
        return self.layers[-1][0] + 1


class FunnelEncoder(OwnLayersEncoder):
    """Encoder with blocks of layers over decreasing positions, and a decoder over all tokens."""

    def __init__(
        self,
        config: EncoderConfig,
        options: FunnelOptions,
        weights: Mapping[str, Tensor],
        linear: LinearFactory,
        device: torch.device,
    ) -> None:
        """linear: of rows that do not depend on each other, on a CPU."""
        super().__init__(config, device)
        self._options = options
        self._table = weights["token_table"].to(device)
        self._norm = build_norm(config, dict(weights), "norm", device)
        build = _Builder(config, weights, linear, device)
        distinct = {name: build.layer(f"layers.{name[0]}.{name[1]}") for name in options.layers}
        self._layers = [(name[0], distinct[name]) for name in options.layers]
        self._decoder = [build.layer(f"layers.{i}.decoder") for i in range(options.decoder_layers)]

    @classmethod
    def build(
        cls,
        description: ModelDescription,
        tensors: Mapping[str, Tensor],
        linear: LinearFactory,
        device: torch.device,
    ) -> Self:
        """Build the encoder from its weights, with the options in the folder's config.json."""
        file = JsonConfig(description.encoder / "config.json")
        options = FunnelOptions(
            layers=family.layers(file),
            first=family.layers_of_first_block(file),
            decoder_layers=family.decoder_layers(file),
        )
        return cls(description.spec.config, options, tensors, linear, device)

    def part(self, name: str, batch: Batch) -> Floats:
        """Return the rows of the tokens: (T, D)."""
        part: Floats = self._table[torch.from_numpy(batch.ids).to(self.device)].cpu().numpy()
        return part

    def hidden(self, batch: Batch, num_layers: int) -> Tensor:
        """Compute the states after the first `num_layers` layers: (T, D).

        States of a block with fewer positions are upsampled to the input of the decoder.
        """
        layout = FunnelLayout(batch, self._options.blocks, self.device)
        return self._hidden(layout, num_layers)[layout.is_token]

    def pooled_states(self, batch: Batch) -> PooledStates:
        """Compute the last states that are pooled: the tokens' or the last block's."""
        if self._decoder:
            return super().pooled_states(batch)
        layout = FunnelLayout(batch, self._options.blocks, self.device)
        states, _, level = self._encode(layout, self.config.num_layers)
        last = layout.levels[level]
        rows = torch.cat([states[part] for part in last.attended])
        prompts = -(-batch.prompt_token_counts // last.stride)
        return PooledStates(rows, last.keys, prompts)

    def _hidden(self, layout: FunnelLayout, num_layers: int) -> Tensor:
        # (rows of the first level, D)
        x, first, level = self._encode(layout, num_layers)
        x = layout.upsample(x, level)
        if num_layers <= len(self._layers):
            return x
        x, tokens = x + first, layout.levels[0]
        for layer in self._decoder[: num_layers - len(self._layers) - 1]:
            x = layer(x, x, tokens, tokens)
        return x

    def _encode(self, layout: FunnelLayout, num_layers: int) -> tuple[Tensor, Tensor, int]:
        # State of the last block, state of the first block, and level of the last block.
        x = first = self._norm(self._table[layout.ids])
        level = 0
        for number, (block, layer) in enumerate(self._layers[:num_layers], start=1):
            ours, theirs = layout.levels[block], layout.levels[level]
            queries = ours.pool(x) if block > level else x
            x = layer(queries, x, ours, theirs)
            level = block
            first = x if number == self._options.first else first
        return x, first, level


@dataclass(frozen=True)
class _Builder:
    config: EncoderConfig
    weights: Mapping[str, Tensor]
    factory: LinearFactory
    device: torch.device

    def layer(self, name: str) -> FunnelLayer:
        attention = self.config.attention
        activation = self.config.feed_forward.activation
        distance = self.weights[f"{name}.distance"].T.contiguous()
        keys = self.factory(distance, torch.zeros(len(distance)), name=f"{name}.distance")
        return FunnelLayer(
            query=self.linear(f"{name}.query"),
            key_value=self.linear(f"{name}.key", f"{name}.value"),
            output=self.linear(f"{name}.output"),
            norm=self.norm(f"{name}.attention_norm"),
            up=self.linear(f"{name}.up", activation=activation),
            down=self.linear(f"{name}.down"),
            ffn_norm=self.norm(f"{name}.ffn_norm"),
            distances=DistanceKeys(keys, self.config.hidden_size, self.device),
            content_bias=self.shift(f"{name}.content_bias"),
            distance_bias=self.shift(f"{name}.distance_bias"),
            segment_bias=self.shift(f"{name}.segment_bias"),
            segment=self.heads(f"{name}.segments", 1).mT,
            heads=attention.heads,
            scale=attention.scale,
        )

    def linear(self, *names: str, activation: str = "none") -> Linear:
        weight = torch.cat([self.weights[f"{name}.weight"] for name in names])
        biases = [self.weights.get(f"{name}.bias") for name in names]
        present = [bias for bias in biases if bias is not None]
        bias = torch.cat(present) if present else torch.zeros(len(weight))
        return self.factory(weight, bias, activation, name=names[0])

    def norm(self, name: str) -> Norm:
        return build_norm(self.config, dict(self.weights), name, self.device)

    def shift(self, name: str) -> Tensor:
        return self.heads(name, 0) * self.config.attention.scale

    def heads(self, name: str, row: int) -> Tensor:
        # (H, 1, Dh)
        attention = self.config.attention
        rows = self.weights[name].view(-1, attention.heads, 1, attention.head_size)
        return rows[row].to(self.device)
