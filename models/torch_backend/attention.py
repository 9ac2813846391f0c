"""Attention over packed sequences: no token sees another text, and no text sees its batch.

N sequences, H heads, Dh head size, Q queries, K keys.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from models.encoder.position_hooks import Positions
from models.encoder.sequence_layout import Group, Packing

_BLOCK = 512  # queries that see a mask of their own at a time: longer texts' would not fit


@dataclass(frozen=True)
class Rules:
    """Which scores a layer computes: see EncoderConfig for what each means."""

    positions: Positions
    scale: float
    causal: bool = False
    reach: int | None = None
    softcap: float = 0.0

    @property
    def plain(self) -> bool:
        """Whether every token sees every other, whatever their distance."""
        return not self.causal and self.reach is None and self.positions.unscored


Attend = Callable[[Tensor, Tensor, Tensor, Packing, Rules], Tensor]
"""softmax(q k^T * scale + bias) v within each sequence: (T, H, Dh) -> (T, H * Dh)."""


def attend(query: Tensor, key: Tensor, value: Tensor, packing: Packing, rules: Rules) -> Tensor:
    """softmax(q k^T * scale + bias) v within each sequence: (T, H, Dh) -> (T, H * Dh).

    Sequences of similar length share one call. A sequence is padded by its own length alone and
    always masked, so its result is the same bits in every batch.
    """
    rows, heads, size = query.shape
    mixed = query.new_zeros(rows, heads * size)
    for group in packing.groups:
        parts = (_block(query, group), _block(key, group), _block(value, group))
        out = _Scores(rules, packing, group).mix(*parts)
        flat = out.transpose(1, 2).reshape(-1, heads * size)
        mixed.index_copy_(0, group.targets, flat.index_select(0, group.slots))
    return mixed


def _block(x: Tensor, group: Group) -> Tensor:
    # (T, H, Dh) -> (N, H, length, Dh)
    found = x.index_select(0, group.rows).view(group.count, group.length, *x.shape[1:])
    return found.transpose(1, 2)


@dataclass(frozen=True)
class _Scores:
    rules: Rules
    packing: Packing
    group: Group

    def mix(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """(N, H, length, Dh) -> (N, H, length, Dh)."""
        shared = query.shape[1] // key.shape[1]
        if shared > 1:  # each head of keys is read by several of queries
            key, value = (part.repeat_interleave(shared, dim=1) for part in (key, value))
        length = self.group.length
        step = length if self.rules.plain else _BLOCK
        found = []
        for first in range(0, length, step):
            queries = range(first, min(first + step, length))
            keys = self._seen(queries)
            some, names, what = (
                part[:, :, span.start : span.stop]
                for part, span in ((query, queries), (key, keys), (value, keys))
            )
            found.append(self._mix(some, names, what, self._mask(some, names, queries, keys)))
        return torch.cat(found, dim=2)

    def _seen(self, queries: range) -> range:
        rules, length = self.rules, self.group.length
        reach = length if rules.reach is None else rules.reach
        last = queries.stop if rules.causal else queries.stop + reach
        return range(max(queries.start - reach, 0), min(last, length))

    def _mask(self, query: Tensor, key: Tensor, queries: range, keys: range) -> Tensor:
        rules, length = self.rules, self.group.length
        padding = self.group.mask[..., keys.start : keys.stop]
        if rules.plain:
            return padding

        def make(packing: Packing) -> tuple[Tensor, Tensor]:
            return self._fixed(queries, keys, query)

        place = (rules.positions.key, rules.reach, length, query.dtype)
        index, fixed = self.packing.recall(place, make) if length <= _BLOCK else make(self.packing)
        relative = self._once(rules.positions.relative)
        content = rules.positions.score(query, key, relative, index)
        return padding + fixed + (0.0 if content is None else content * rules.scale)

    def _fixed(self, queries: range, keys: range, like: Tensor) -> tuple[Tensor, Tensor]:
        # What does not depend on the texts: the place of each distance among those that hooks
        # are asked for (Q, K), and (H or 1, Q, K) to add.
        rules, length = self.rules, self.group.length
        places = torch.arange(length, device=like.device)
        distances = places[keys.start : keys.stop] - places[queries.start : queries.stop, None]
        index, bias = distances + length - 1, self._once(rules.positions.bias)
        none = like.new_zeros(1, *distances.shape)
        fixed = none if bias is None else bias[:, index].to(like.dtype)
        if rules.causal:
            fixed.masked_fill_(distances > 0, float("-inf"))
        if rules.reach is not None:
            fixed.masked_fill_(distances.abs() > rules.reach, float("-inf"))
        return index, fixed

    def _once(self, hook: Callable[[int], Tensor | None]) -> Any:
        # What a hook makes of the distances within the length, for every layer and block.
        place = (hook.__name__, self.rules.positions.key, self.group.length)
        return self.packing.recall(place, lambda _: hook(self.group.length))

    def _mix(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
        rules = self.rules
        if not rules.softcap:
            return F.scaled_dot_product_attention(
                query, key, value, attn_mask=mask, scale=rules.scale
            )
        scores = (query @ key.mT) * (rules.scale / rules.softcap)
        return (scores.tanh() * rules.softcap + mask).softmax(dim=-1) @ value
