"""Attention over packed sequences, in which tokens attend only within their own sequence.

T tokens, N sequences, H heads, Dh head size, Q queries, K keys.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from embedwell_models.torch_backend.position_hooks import PositionHooks
from embedwell_models.torch_backend.sequence_layout import PaddedGroup, SequenceLayout
from embedwell_models.torch_backend.tensors import text_products

_BLOCK = 512  # queries that share one mask, to bound its memory


@dataclass(frozen=True)
class AttentionOptions:
    """Options of a layer's attention, see AttentionSpec. window: None for the whole sequence."""

    positions: PositionHooks
    scale: float
    causal: bool = False
    window: int | None = None
    window_after: int | None = None
    softcap: float = 0.0
    global_first: bool = False

    @property
    def after(self) -> int | None:
        """Number of visible tokens after a token; None for the whole sequence."""
        return self.window if self.window_after is None else self.window_after

    @property
    def unmasked(self) -> bool:
        """Whether every token attends to every other, with scores that ignore their distance."""
        return not self.causal and self.window is None and self.positions.adds_no_scores


@dataclass(frozen=True)
class Visibility:
    """Keys that a query sees. window: None for all. key_counts: (N,) int32, or None for all."""

    causal: bool = False
    window: int | None = None
    key_counts: Tensor | None = None


AttentionFunction = Callable[[Tensor, Tensor, Tensor, SequenceLayout, AttentionOptions], Tensor]
"""Function that computes softmax(q k^T * scale + bias) v within each sequence.

q, k, v: (T, H, Dh). Returns (T, H * Dh).
"""


def padded_attention(
    query: Tensor, key: Tensor, value: Tensor, layout: SequenceLayout, options: AttentionOptions
) -> Tensor:
    """Compute attention in groups of padded sequences: (T, H, Dh) -> (T, H * Dh).

    Sequences of similar length share one call. The padding of a sequence depends only on its length
    and is always masked, so its result is bit-identical in every batch.
    """
    rows, heads, size = query.shape
    output = query.new_zeros(rows, heads * size)
    for group in layout.groups:
        padded = map(group.pad, (query, key, value))
        attended = _GroupAttention(options, layout, group).attend(*padded)
        flat = attended.transpose(1, 2).reshape(-1, heads * size)
        output.index_copy_(0, group.targets, flat.index_select(0, group.slots))
    return output


def attend_from_first(
    output: Tensor, heads: Sequence[Tensor], layout: SequenceLayout, scale: float
) -> None:
    """Replace the rows of first tokens by their attention to the whole sequence.

    output: (T, H * Dh), changed in place. heads: queries, keys and values, (T, H, Dh) each.
    """
    for group in layout.groups:
        query, key, value = map(group.pad, heads)
        # With a single query, the bits of torch's own attention depend on the batch.
        scores = text_products(query[:, :, :1], key.mT) * scale + group.mask
        attended = text_products(scores.softmax(dim=-1), value)
        firsts = group.rows.view(group.count, group.length)[:, 0]
        output.index_copy_(0, firsts, attended.flatten(1))


@dataclass(frozen=True)
class _GroupAttention:
    options: AttentionOptions
    layout: SequenceLayout
    group: PaddedGroup

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Compute attention in blocks of queries: (N, H, length, Dh) -> (N, H, length, Dh)."""
        queries_per_key = query.shape[1] // key.shape[1]
        if queries_per_key > 1:
            key, value = (part.repeat_interleave(queries_per_key, dim=1) for part in (key, value))
        length = self.group.length
        step = length if self.options.unmasked else _BLOCK
        blocks = []
        for first in range(0, length, step):
            queries = range(first, min(first + step, length))
            keys = self._visible_keys(queries)
            q, k, v = (
                part[:, :, span.start : span.stop]
                for part, span in ((query, queries), (key, keys), (value, keys))
            )
            blocks.append(self._attend_block(q, k, v, self._mask(q, k, queries, keys)))
        return torch.cat(blocks, dim=2)

    def _visible_keys(self, queries: range) -> range:
        options, length = self.options, self.group.length
        before = length if options.window is None else options.window
        after = length if options.after is None else options.after
        first = 0 if options.global_first else max(queries.start - before, 0)
        last = queries.stop if options.causal else queries.stop + after
        return range(first, min(last, length))

    def _mask(self, query: Tensor, key: Tensor, queries: range, keys: range) -> Tensor:
        options, length = self.options, self.group.length
        padding = self.group.mask[..., keys.start : keys.stop]
        if options.unmasked:
            return padding

        def compute(_: SequenceLayout) -> tuple[Tensor, Tensor]:
            return self._distance_mask(queries, keys, query)

        window = options.window, options.after
        cache_key = (options.positions.cache_key, window, length, query.dtype)
        cacheable = length <= _BLOCK
        index, mask = self.layout.cached(cache_key, compute) if cacheable else compute(self.layout)
        relative = self._cached_hook(options.positions.relative_features)
        score = None
        if relative is not None:
            score = options.positions.relative_score(query, key, relative, index)
        return padding + mask + (0.0 if score is None else score * options.scale)

    def _distance_mask(self, queries: range, keys: range, like: Tensor) -> tuple[Tensor, Tensor]:
        # Both results depend only on distances: the index (Q, K) of each pair's distance in the
        # tables of the hooks, and the sum (H or 1, Q, K) of mask and bias.
        options, length = self.options, self.group.length
        positions = torch.arange(length, device=like.device)
        distances = (
            positions[keys.start : keys.stop] - positions[queries.start : queries.stop, None]
        )
        index, bias = distances + length - 1, self._cached_hook(options.positions.bias)
        zeros = like.new_zeros(1, *distances.shape)
        mask = zeros if bias is None else bias[:, index].to(like.dtype)
        if options.causal:
            mask.masked_fill_(distances > 0, float("-inf"))
        if options.window is not None and options.after is not None:
            outside = (distances < -options.window) | (distances > options.after)
            if options.global_first:
                outside[:, 0] = False
            mask.masked_fill_(outside, float("-inf"))
        return index, mask

    def _cached_hook(self, hook: Callable[[int], Tensor | None]) -> Tensor | None:
        # Result of a hook for this length, computed once for all layers and blocks.
        cache_key = (hook.__name__, self.options.positions.cache_key, self.group.length)
        return self.layout.cached(cache_key, lambda _: hook(self.group.length))

    def _attend_block(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
        options = self.options
        if not options.softcap:
            return F.scaled_dot_product_attention(
                query, key, value, attn_mask=mask, scale=options.scale
            )
        scores = text_products(query, key.mT) * (options.scale / options.softcap)
        weights = (scores.tanh() * options.softcap + mask).softmax(dim=-1)
        # A query without keys has zeros, as torch's own attention returns.
        weights = weights.masked_fill((mask == float("-inf")).all(-1, keepdim=True), 0.0)
        return text_products(weights, value)
