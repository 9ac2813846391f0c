"""Pooling: the hidden states of each sequence to one vector, over packed segments."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from models.encoder.async_copy import send
from models.encoder.sequence_layout import Packing


@dataclass(frozen=True)
class Segments:
    """The rows of B sequences that are pooled: where they start, how many, and after how many."""

    starts: Tensor
    lengths: Tensor
    skips: Tensor


Pool = Callable[[Tensor, Segments], Tensor]


def cls(hidden: Tensor, segments: Segments) -> Tensor:
    """The first token's state: (T, D) -> (B, D)."""
    return _padded(hidden)[segments.starts]


def last(hidden: Tensor, segments: Segments) -> Tensor:
    """The last token's state: (T, D) -> (B, D)."""
    return _padded(hidden)[segments.starts + segments.lengths - 1]


def mean(hidden: Tensor, segments: Segments) -> Tensor:
    """The average over tokens: (T, D) -> (B, D)."""
    return _reduce(hidden, segments, "mean")


def largest(hidden: Tensor, segments: Segments) -> Tensor:
    """The largest value in each dimension: (T, D) -> (B, D)."""
    return _reduce(hidden, segments, "max")


def mean_sqrt(hidden: Tensor, segments: Segments) -> Tensor:
    """The sum over tokens divided by the square root of their number: (T, D) -> (B, D)."""
    return mean(hidden, segments) * segments.lengths[:, None].sqrt()


def weighted_mean(hidden: Tensor, segments: Segments) -> Tensor:
    """The average weighted by position, the first token counting once (arXiv 2202.08904)."""
    count, before = segments.lengths, segments.skips
    # From a row's number to its place in its text, counted from one.
    shift = (before + 1 - segments.starts).repeat_interleave(count, output_size=len(hidden))
    weights = (torch.arange(len(hidden), device=hidden.device) + shift)[:, None]
    total = count * (count + 1) / 2 + count * before
    return _reduce(hidden * weights.to(hidden.dtype), segments, "sum") / total[:, None]


POOLINGS: dict[str, Pool] = {
    "cls": cls,
    "max": largest,
    "mean": mean,
    "mean_sqrt_len_tokens": mean_sqrt,
    "weightedmean": weighted_mean,
    "lasttoken": last,
}


def pool(
    hidden: Tensor, packing: Packing, modes: Sequence[str], skips: Tensor | None = None
) -> Tensor:
    """The poolings of these names side by side, in float32: (T, D) -> (B, D * modes).

    skips: (B,) how many rows of each sequence, the first ones, are left out; by default none.
    A sequence of which nothing is left has the zero vector.
    """
    states = hidden[: packing.tokens].to(torch.float32)  # without the rows of no sequence
    segments = Segments(packing.starts, packing.lengths, torch.zeros_like(packing.lengths))
    if skips is not None and skips.any():
        states, segments = _after(states, packing, skips)
    pooled = torch.cat([POOLINGS[mode](states, segments) for mode in modes], dim=1)
    return pooled.masked_fill(segments.lengths[:, None] == 0, 0.0)


def _after(hidden: Tensor, packing: Packing, skips: Tensor) -> tuple[Tensor, Segments]:
    # On the host: it would wait for a device to say how many rows are left.
    counts = torch.tensor(packing.sizes)
    lengths = (counts - skips).clamp(min=0)
    starts = lengths.cumsum(0) - lengths
    shift = (counts.cumsum(0) - counts + skips - starts).repeat_interleave(lengths)
    rows = torch.arange(len(shift)) + shift
    rows, starts, lengths, skips = send(hidden.device, rows, starts, lengths, skips)
    return hidden.index_select(0, rows), Segments(starts, lengths, skips)


def _reduce(hidden: Tensor, segments: Segments, how: str) -> Tensor:
    return torch.segment_reduce(hidden, how, lengths=segments.lengths, axis=0, unsafe=True)


def _padded(hidden: Tensor) -> Tensor:
    # With a last row that stands for that of an empty sequence.
    return torch.cat([hidden, hidden.new_zeros(1, hidden.shape[1])])
