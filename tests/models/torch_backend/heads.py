"""Random heads, and rules of which token attends to which."""

import math
from dataclasses import replace

import torch
from torch import Tensor

from embedwell_models.torch_backend.attention import AttentionOptions
from embedwell_models.torch_backend.position_hooks import PositionHooks
from embedwell_models.torch_backend.sequence_layout import SequenceLayout

CPU = torch.device("cpu")

HEADS, KEY_HEADS, SIZE = 4, 2, 8

SCALE = 1 / math.sqrt(SIZE)


class Slanted(PositionHooks):
    """A bias that differs by head and by the order of the two tokens."""

    def bias(self, length: int) -> Tensor:
        distance = torch.arange(1 - length, length, dtype=torch.float32)
        slopes = torch.tensor([0.05, -0.03, 0.01, 0.0])[:, None]
        return slopes * (2 * distance.abs() + distance)


class Contents(PositionHooks):
    """Scores that depend on both tokens and on the order of the two."""

    def relative_features(self, length: int) -> Tensor:
        return torch.arange(1 - length, length)

    def relative_score(self, query: Tensor, key: Tensor, relative: Tensor, index: Tensor) -> Tensor:
        turned = relative[index].to(query.dtype).sin()
        return query[..., :1] * turned + key[..., None, :, 1] * turned.square()


RULES = {
    "plain": AttentionOptions(PositionHooks(), SCALE),
    "bias": AttentionOptions(Slanted(), SCALE),
    "causal": AttentionOptions(PositionHooks(), SCALE, causal=True),
    "window": AttentionOptions(PositionHooks(), SCALE, window=3),
    "uneven": AttentionOptions(PositionHooks(), SCALE, window=2, window_after=4),
    "first": AttentionOptions(PositionHooks(), SCALE, window=3, global_first=True),
    "itself": AttentionOptions(PositionHooks(), SCALE, window=0),
    "softcap": AttentionOptions(PositionHooks(), 2.0, softcap=1.5),
    "content": AttentionOptions(Contents(), SCALE),
    "all": AttentionOptions(Slanted(), 2.0, causal=True, window=4, softcap=1.5),
    "content behind": AttentionOptions(Contents(), 2.0, causal=True, window=4),
}


def heads_of(
    layout: SequenceLayout, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values: each head of keys is read by two of queries."""
    noise = torch.Generator().manual_seed(layout.rows)
    split = [HEADS, KEY_HEADS, KEY_HEADS]
    both = torch.randn(layout.rows, sum(split), SIZE, generator=noise).to(dtype)
    query, key, value = torch.split(both, split, dim=1)
    return query, key, value


PLAIN = AttentionOptions(PositionHooks(), SCALE)

NAMES = ("plain", "causal", "window", "itself")

WINDOWS = {name: RULES[name] for name in NAMES} | {"both": replace(PLAIN, causal=True, window=3)}
