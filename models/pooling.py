"""Pooling: the hidden states of each sequence to one vector, over packed segments."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from models.packing import Packing

Pool = Callable[[Tensor, Packing], Tensor]


def cls(hidden: Tensor, packing: Packing) -> Tensor:
    """The first token's state: (T, D) -> (B, D)."""
    return hidden[packing.starts]


def last(hidden: Tensor, packing: Packing) -> Tensor:
    """The last token's state: (T, D) -> (B, D)."""
    return hidden[packing.starts + packing.lengths - 1]


def mean(hidden: Tensor, packing: Packing) -> Tensor:
    """The average over tokens, of none of them zero: (T, D) -> (B, D)."""
    return _reduce(hidden, packing, "sum") / packing.lengths.clamp(min=1)[:, None]


def largest(hidden: Tensor, packing: Packing) -> Tensor:
    """The largest value in each dimension: (T, D) -> (B, D)."""
    return _reduce(hidden, packing, "max")


def mean_sqrt(hidden: Tensor, packing: Packing) -> Tensor:
    """The sum over tokens divided by the square root of their number: (T, D) -> (B, D)."""
    return mean(hidden, packing) * packing.lengths[:, None].sqrt()


def weighted_mean(hidden: Tensor, packing: Packing) -> Tensor:
    """The average weighted by position, the first token counting once (arXiv 2202.08904)."""
    weights = (packing.positions[: len(hidden), None] + 1).to(hidden.dtype)
    total = packing.lengths * (packing.lengths + 1) / 2
    return _reduce(hidden * weights, packing, "sum") / total[:, None]


POOLINGS: dict[str, Pool] = {
    "cls": cls,
    "max": largest,
    "mean": mean,
    "mean_sqrt_len_tokens": mean_sqrt,
    "weightedmean": weighted_mean,
    "lasttoken": last,
}


def pool(hidden: Tensor, packing: Packing, modes: Sequence[str]) -> Tensor:
    """The poolings of these names side by side, in float32: (T, D) -> (B, D * modes)."""
    states = hidden[: packing.tokens].to(torch.float32)  # without the rows of no sequence
    return torch.cat([POOLINGS[mode](states, packing) for mode in modes], dim=1)


def _reduce(hidden: Tensor, packing: Packing, how: str) -> Tensor:
    return torch.segment_reduce(hidden, how, lengths=packing.lengths, axis=0, unsafe=True)
