"""Layer of Funnel Transformer (Dai et al. 2020, arXiv 2006.03236): attention with distances.

D width, H heads, Dh head size, N query positions and M key positions of a text.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from embedwell_models.classic.funnel.layout import Level
from embedwell_models.positions import tables
from embedwell_models.torch_backend.linear import Linear
from embedwell_models.torch_backend.norm import Norm


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
        beside = (query + self.distance_bias) @ keys.mT
        beside = beside.gather(2, (distances + reach).expand(self.heads, -1, -1))
        beside += (query + self.segment_bias) @ self.segment
        beside[:, 0] = 0.0  # the first token has neither distances nor a segment
        beside[:, :, 0] = 0.0
        return (query + self.content_bias) @ key.mT + beside
