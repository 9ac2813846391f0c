"""Funnel Transformer (Dai et al. 2020, arXiv 2006.03236): each block has fewer positions.

T tokens, D width, H heads, Dh head size.
"""

import torch
from torch import Tensor

from embedwell_models.classic.funnel import family
from embedwell_models.classic.funnel.layer import DistanceKeys, FunnelLayer
from embedwell_models.classic.funnel.layout import FunnelLayout
from embedwell_models.classic.own_layers_encoder import (
    LayerBuilder,
    OwnLayersEncoder,
    PooledStates,
)
from embedwell_models.encoder.batch import Batch
from embedwell_models.vectors import Floats


class FunnelEncoder(OwnLayersEncoder):
    """Encoder with blocks of layers over decreasing positions, and a decoder over all tokens."""

    def __init__(self, build: LayerBuilder) -> None:
        super().__init__(build)
        order, decoder_layers = family.layers(build.options), family.decoder_layers(build.options)
        self._blocks = order[-1][0] + 1  # each block but the first pools pairs of positions
        self._first = family.layers_of_first_block(build.options)
        self._table, self._norm = build.tensor("token_table"), build.norm("norm")
        distinct = {place: _layer(build, "layers.{}.{}".format(*place)) for place in order}
        self._layers = [(place[0], distinct[place]) for place in order]
        self._decoder = [_layer(build, f"layers.{i}.decoder") for i in range(decoder_layers)]

    def part(self, name: str, batch: Batch) -> Floats:
        """Return the rows of the tokens: (T, D)."""
        part: Floats = self._table[torch.from_numpy(batch.ids).to(self.device)].cpu().numpy()
        return part

    def hidden(self, batch: Batch, num_layers: int) -> Tensor:
        """Compute the states after the first `num_layers` layers: (T, D).

        States of a block with fewer positions are upsampled to the input of the decoder.
        """
        layout = FunnelLayout(batch, self._blocks, self.device)
        return self._hidden(layout, num_layers)[layout.is_token]

    def pooled_states(self, batch: Batch) -> PooledStates:
        """Compute the last states that are pooled: the tokens' or the last block's."""
        if self._decoder:
            return super().pooled_states(batch)
        layout = FunnelLayout(batch, self._blocks, self.device)
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
            first = x if number == self._first else first
        return x, first, level


def _layer(build: LayerBuilder, name: str) -> FunnelLayer:
    config, attention = build.config, build.config.attention
    distance = build.weights[f"{name}.distance"].T.contiguous()
    keys = build.factory(distance, torch.zeros(len(distance)), name=f"{name}.distance")

    def by_head(part: str, row: int = 0) -> Tensor:  # (H, 1, Dh)
        rows = build.tensor(f"{name}.{part}").view(-1, attention.heads, 1, attention.head_size)
        return rows[row]

    return FunnelLayer(
        query=build.linear(f"{name}.query"),
        key_value=build.linear(f"{name}.key", f"{name}.value"),
        output=build.linear(f"{name}.output"),
        norm=build.norm(f"{name}.attention_norm"),
        up=build.linear(f"{name}.up", activation=config.feed_forward.activation),
        down=build.linear(f"{name}.down"),
        ffn_norm=build.norm(f"{name}.ffn_norm"),
        distances=DistanceKeys(keys, config.hidden_size, build.device),
        content_bias=by_head("content_bias") * attention.scale,
        distance_bias=by_head("distance_bias") * attention.scale,
        segment_bias=by_head("segment_bias") * attention.scale,
        segment=by_head("segments", 1).mT,
        heads=attention.heads,
        scale=attention.scale,
    )
