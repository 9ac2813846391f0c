"""Pooling: the hidden states of each sequence to one vector, over packed sequences.

B sequences, T tokens, D hidden size.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from models.encoder.async_copy import to_device
from models.encoder.sequence_layout import SequenceLayout


@dataclass(frozen=True)
class Segments:
    """The rows of B sequences that are pooled.

    prompt_token_counts: how many rows before them are not.
    """

    starts: Tensor
    lengths: Tensor
    prompt_token_counts: Tensor


Pooling = Callable[[Tensor, Segments], Tensor]
"""Pools each sequence's hidden states: (T, D) -> (B, D)."""


def cls(hidden: Tensor, segments: Segments) -> Tensor:
    """The first token's state: (T, D) -> (B, D)."""
    return _with_zero_row(hidden)[segments.starts]


def last(hidden: Tensor, segments: Segments) -> Tensor:
    """The last token's state: (T, D) -> (B, D)."""
    return _with_zero_row(hidden)[segments.starts + segments.lengths - 1]


def mean(hidden: Tensor, segments: Segments) -> Tensor:
    """The average over tokens: (T, D) -> (B, D)."""
    return _reduce(hidden, segments, "mean")


def maximum(hidden: Tensor, segments: Segments) -> Tensor:
    """The largest value in each dimension: (T, D) -> (B, D)."""
    return _reduce(hidden, segments, "max")


def mean_sqrt(hidden: Tensor, segments: Segments) -> Tensor:
    """The sum over tokens divided by the square root of their number: (T, D) -> (B, D)."""
    return mean(hidden, segments) * segments.lengths[:, None].sqrt()


def weighted_mean(hidden: Tensor, segments: Segments) -> Tensor:
    """The average weighted by position, counted from one (arXiv 2202.08904): (T, D) -> (B, D)."""
    count, before = segments.lengths, segments.prompt_token_counts
    # From a row's number to its position in its text, counted from one.
    shift = (before + 1 - segments.starts).repeat_interleave(count, output_size=len(hidden))
    weights = (torch.arange(len(hidden), device=hidden.device) + shift)[:, None]
    total = count * (count + 1) / 2 + count * before
    return _reduce(hidden * weights.to(hidden.dtype), segments, "sum") / total[:, None]


POOLINGS: dict[str, Pooling] = {
    "cls": cls,
    "max": maximum,
    "mean": mean,
    "mean_sqrt_len_tokens": mean_sqrt,
    "weightedmean": weighted_mean,
    "lasttoken": last,
}


def pool(
    hidden: Tensor,
    layout: SequenceLayout,
    modes: Sequence[str],
    prompt_token_counts: Tensor | None = None,
) -> Tensor:
    """Concatenate the poolings of these names, in float32: (T, D) -> (B, D * modes).

    prompt_token_counts: (B,) how many of each sequence's first rows are left out; by default none.
    A sequence without remaining rows has the zero vector.
    """
    states = hidden[: layout.tokens].to(torch.float32)  # without padding rows
    segments = Segments(layout.starts, layout.lengths, torch.zeros_like(layout.lengths))
    if prompt_token_counts is not None and prompt_token_counts.any():
        states, segments = _without_skipped(states, layout, prompt_token_counts)
    pooled = torch.cat([POOLINGS[mode](states, segments) for mode in modes], dim=1)
    return pooled.masked_fill(segments.lengths[:, None] == 0, 0.0)


def _without_skipped(
    hidden: Tensor, layout: SequenceLayout, prompt_token_counts: Tensor
) -> tuple[Tensor, Segments]:
    # Indices are computed on the host, which would otherwise wait for the device to know their
    # number.
    counts = torch.tensor(layout.host_lengths)
    lengths = (counts - prompt_token_counts).clamp(min=0)
    starts = lengths.cumsum(0) - lengths
    shift = (counts.cumsum(0) - counts + prompt_token_counts - starts).repeat_interleave(lengths)
    rows = torch.arange(len(shift)) + shift
    rows, starts, lengths, prompt_token_counts = to_device(
        hidden.device, rows, starts, lengths, prompt_token_counts
    )
    return hidden.index_select(0, rows), Segments(starts, lengths, prompt_token_counts)


def _reduce(hidden: Tensor, segments: Segments, how: str) -> Tensor:
    return torch.segment_reduce(hidden, how, lengths=segments.lengths, axis=0, unsafe=True)


def _with_zero_row(hidden: Tensor) -> Tensor:
    # An empty sequence at the end indexes this row.
    return torch.cat([hidden, hidden.new_zeros(1, hidden.shape[1])])
