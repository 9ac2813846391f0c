"""Funnel Transformer (Dai et al. 2020, arXiv 2006.03236): each block has fewer positions.

B texts, T tokens, D width, H heads, Dh head size, N query positions and M key positions of a text.
In the level of a block, each text has N positions. The first position is that of the first token,
which is not pooled with others.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from embedwell_classic.encoders.custom_layers import (
    CustomLayersEncoder,
    LayerBuilder,
    PooledStates,
)
from embedwell_classic.families import funnel
from embedwell_models.encoder.batch import Batch
from embedwell_models.positions import tables
from embedwell_models.torch_backend.linear import Linear
from embedwell_models.torch_backend.norm import Norm


@dataclass(frozen=True)
class Level:
    """Concatenated positions of B texts in a block.

    lengths: positions of each text. keys: number of first positions that are attended to. stride:
    tokens between two positions. pooled: (2, rows) rows of the previous level whose mean each state
    is.
    """

    lengths: Sequence[int]
    keys: Sequence[int]
    stride: int
    pooled: Tensor

    @cached_property
    def slices(self) -> list[slice]:
        """Rows of each text."""
        ends = torch.tensor(self.lengths).cumsum(0).tolist()
        return [slice(end - n, end) for end, n in zip(ends, self.lengths, strict=True)]

    @cached_property
    def attended(self) -> list[slice]:
        """Rows of each text that are attended to."""
        pairs = zip(self.slices, self.keys, strict=True)
        return [slice(part.start, part.start + keys) for part, keys in pairs]

    def pool(self, x: Tensor) -> Tensor:
        """Pool states of the previous level: (rows of the previous level, D) -> (rows, D)."""
        return (x[self.pooled[0]] + x[self.pooled[1]]) * 0.5


class FunnelLayout:
    """Levels of B texts; the first level has the tokens.

    A text with too few tokens for the pooling of each block is padded at its end; no token attends
    to the padding.

    levels: one for each block. ids: (rows of the first level,), 0 for padding. is_token: (rows of
    the first level,).
    """

    def __init__(self, batch: Batch, blocks: int, device: torch.device) -> None:
        self._device = device
        counts = batch.lengths.tolist()
        least = 2 ** (blocks - 1) + 1
        lengths = [max(count, least) for count in counts]
        keys = counts if batch.key_counts is None else batch.key_counts.tolist()
        nothing = torch.empty(2, 0, dtype=torch.int64)
        self.levels = [Level(lengths, keys, 1, nothing)]
        for _ in range(blocks - 1):
            self.levels.append(_pooled(self.levels[-1], device))
        is_token = torch.cat(
            [torch.arange(n) < count for n, count in zip(lengths, counts, strict=True)]
        )
        ids = torch.zeros(len(is_token), dtype=torch.int64)
        ids[is_token] = torch.from_numpy(batch.ids)
        self.ids, self.is_token = ids.to(device), is_token.to(device)

    def upsample(self, x: Tensor, level: int) -> Tensor:
        """Upsample states: (rows of a level, D) -> (rows of the first level, D).

        A token that is in no position gets zeros; this happens to last tokens.
        """
        if not level:
            return x
        rows = []
        for tokens, part in zip(self.levels[0].lengths, self.levels[level].slices, strict=True):
            position = (torch.arange(tokens) - 1).div(
                self.levels[level].stride, rounding_mode="floor"
            ) + 1
            is_missing = position >= part.stop - part.start
            rows.append((position + part.start).masked_fill(is_missing, len(x)))
        return F.pad(x, (0, 0, 0, 1))[torch.cat(rows).to(self._device)]


def _pooled(before: Level, device: torch.device) -> Level:
    lengths, keys, pooled = [], [], []
    for part, attended in zip(before.slices, before.keys, strict=True):
        count = part.stop - part.start
        first = (2 * torch.arange((count + 1) // 2) - 1).clamp(min=0)
        # The last position of the previous level is left out; the one before may have no partner.
        second = torch.where(first + 1 < count - 1, first + 1, first)
        second[0] = 0
        lengths.append(len(first))
        keys.append(int((second < attended).sum()))
        pooled.append(torch.stack([first, second]) + part.start)
    return Level(lengths, keys, 2 * before.stride, torch.cat(pooled, dim=1).to(device))


class DistanceKeys:
    """Keys of distances between positions, computed up to the greatest distance so far."""

    def __init__(self, linear: Linear, width: int, device: torch.device) -> None:
        """linear: projection of the sinusoids of distances, (rows, D) -> (rows, H * Dh)."""
        self._linear, self._width, self._device = linear, width, device
        self._keys: dict[int, Tensor] = {}

    def rows(self, reach: int, stride: int) -> Tensor:
        """Return the keys of the distances stride * (-reach to reach): (2 * reach + 1, H * Dh)."""
        cached = self._keys.get(stride)
        if cached is None or len(cached) < 2 * reach + 1:
            most = 1 << reach.bit_length()
            distances = stride * np.arange(-most, most + 1)
            sinusoids = tables.transformer_xl(distances, self._width)
            cached = self._linear(torch.from_numpy(sinusoids).to(self._device))
            self._keys[stride] = cached
        middle = len(cached) // 2
        return cached[middle - reach : middle + reach + 1]


@dataclass(frozen=True)
class FunnelLayer:
    """Attention between positions of one level or of two levels, then a feed-forward network.

    distances: distances of the keys' level. content_bias, distance_bias, segment_bias: (H, 1, Dh),
    added to the scaled queries for each kind of score. segment: (H, Dh, 1), the key for two
    positions in the same segment, which holds for all positions.
    """

    query: Linear
    key_value: Linear
    output: Linear
    norm: Norm
    up: Linear
    down: Linear
    ffn_norm: Norm
    distances: DistanceKeys
    content_bias: Tensor
    distance_bias: Tensor
    segment_bias: Tensor
    segment: Tensor
    heads: int
    scale: float

    def __call__(self, x: Tensor, context: Tensor, ours: Level, theirs: Level) -> Tensor:
        """Apply the layer to x (rows of ours, D), with attention to context (rows of theirs, D)."""
        query, (key, value) = self.query(x), self.key_value(context).chunk(2, dim=1)
        step = 2 if ours is not theirs else 1
        parts = []
        for own, others in zip(ours.slices, theirs.attended, strict=True):
            heads = (self._heads(part) for part in (query[own], key[others], value[others]))
            scaled, keys, values = heads
            scaled = scaled * self.scale
            scores = self._scores(scaled, keys, theirs.stride, step)
            parts.append((scores.softmax(dim=2) @ values).transpose(0, 1).flatten(1))
        x = self.norm(self.output(torch.cat(parts), residual=x))
        return self.ffn_norm(self.down(self.up(x), residual=x))

    def _heads(self, x: Tensor) -> Tensor:
        # (N, H * Dh) -> (H, N, Dh), copied so that the bits do not depend on the rows around it.
        return x.view(len(x), self.heads, -1).transpose(0, 1).contiguous()

    def _scores(self, query: Tensor, key: Tensor, stride: int, step: int) -> Tensor:
        # Scores of one text: (H, N, Dh), (H, M, Dh) -> (H, N, M), appendix A.2 of the paper. step:
        # key positions from one query to the next.
        rows, columns = (torch.arange(part.shape[1], device=query.device) for part in (query, key))
        # With pooled queries, query position i starts at key position 2 i - 1.
        distances = (step * rows + 1 - step)[:, None] - columns
        reach = max(step * len(rows), len(columns) + 1)
        keys = self._heads(self.distances.rows(reach, stride))
        relative = (query + self.distance_bias) @ keys.mT
        relative = relative.gather(2, (distances + reach).expand(self.heads, -1, -1))
        relative += (query + self.segment_bias) @ self.segment
        relative[:, 0] = 0.0  # the first token has neither distances nor a segment
        relative[:, :, 0] = 0.0
        return (query + self.content_bias) @ key.mT + relative


class FunnelEncoder(CustomLayersEncoder):
    """Encoder with blocks of layers over decreasing positions, and a decoder over all tokens."""

    def __init__(self, build: LayerBuilder) -> None:
        super().__init__(build)
        order, decoder_layers = (
            funnel.layers(build.options),
            funnel.decoder_layers(build.options),
        )
        self._blocks = order[-1][0] + 1  # each block but the first pools pairs of positions
        self._first = funnel.layers_of_first_block(build.options)
        self._table, self._norm = build.tensor("token_table"), build.norm("norm")
        distinct = {place: _layer(build, "layers.{}.{}".format(*place)) for place in order}
        self._layers = [(place[0], distinct[place]) for place in order]
        self._decoder = [_layer(build, f"layers.{i}.decoder") for i in range(decoder_layers)]

    def summand(self, name: str, batch: Batch) -> Tensor:
        """Return the rows of the tokens: (T, D)."""
        return self._table[torch.from_numpy(batch.ids).to(self.device)]

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
