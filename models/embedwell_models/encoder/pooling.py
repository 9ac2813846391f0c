"""Pooling of the hidden states of each packed sequence to one vector.

B sequences, T tokens, D hidden size.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from embedwell_models.encoder.async_copy import to_device
from embedwell_models.encoder.batch import Batch
from embedwell_models.encoder.sequence_layout import SequenceLayout
from embedwell_models.vectors import Floats


@dataclass(frozen=True)
class PooledRows:
    """The pooled rows of B sequences.

    prompt_token_counts: number of rows before them that are not pooled.
    """

    starts: Tensor
    lengths: Tensor
    prompt_token_counts: Tensor


Pooling = Callable[[Tensor, PooledRows], Tensor]
"""Function that pools each sequence's hidden states: (T, D) -> (B, D)."""


def cls(hidden: Tensor, pooled_rows: PooledRows) -> Tensor:
    """Return the first token's state: (T, D) -> (B, D)."""
    return _with_zero_row(hidden)[pooled_rows.starts]


def last(hidden: Tensor, pooled_rows: PooledRows) -> Tensor:
    """Return the last token's state: (T, D) -> (B, D)."""
    return _with_zero_row(hidden)[pooled_rows.starts + pooled_rows.lengths - 1]


def mean(hidden: Tensor, pooled_rows: PooledRows) -> Tensor:
    """Return the average over tokens: (T, D) -> (B, D)."""
    return _reduce(hidden, pooled_rows, "mean")


def maximum(hidden: Tensor, pooled_rows: PooledRows) -> Tensor:
    """Return the largest value in each dimension: (T, D) -> (B, D)."""
    return _reduce(hidden, pooled_rows, "max")


def mean_sqrt(hidden: Tensor, pooled_rows: PooledRows) -> Tensor:
    """Return the sum over tokens / the square root of their number: (T, D) -> (B, D)."""
    return mean(hidden, pooled_rows) * pooled_rows.lengths[:, None].sqrt()


def weighted_mean(hidden: Tensor, pooled_rows: PooledRows) -> Tensor:
    """Return the average weighted by position, from 1 (arXiv 2202.08904): (T, D) -> (B, D)."""
    count, before = pooled_rows.lengths, pooled_rows.prompt_token_counts
    # Converts row numbers to positions in the text, counted from one.
    shift = (before + 1 - pooled_rows.starts).repeat_interleave(count, output_size=len(hidden))
    weights = (torch.arange(len(hidden), device=hidden.device) + shift)[:, None]
    total = count * (count + 1) / 2 + count * before
    return _reduce(hidden * weights.to(hidden.dtype), pooled_rows, "sum") / total[:, None]


POOLINGS: dict[str, Pooling] = {  # the order of Pooling in kernels/pool.h
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
    """Concatenate several poolings in float32: (T, D) -> (B, D * modes).

    modes: names of the poolings. prompt_token_counts: (B,) number of first rows of each sequence
    that are left out; by default 0. A sequence without remaining rows has the zero vector.
    """
    states = hidden[: layout.tokens].to(torch.float32)  # without padding rows
    pooled_rows = PooledRows(layout.starts, layout.lengths, torch.zeros_like(layout.lengths))
    if prompt_token_counts is not None and prompt_token_counts.any():
        states, pooled_rows = _without_skipped(states, layout, prompt_token_counts)
    pooled = torch.cat([POOLINGS[mode](states, pooled_rows) for mode in modes], dim=1)
    return pooled.masked_fill(pooled_rows.lengths[:, None] == 0, 0.0)


def pool_batch(states: Floats, batch: Batch, modes: Sequence[str]) -> Floats:
    """Pool the states of a batch on a CPU, without prompt tokens: (T, D) -> (B, D * modes).

    `batch.prompt_token_counts` first tokens of each text are left out.
    """
    layout = SequenceLayout(batch.lengths.tolist(), torch.device("cpu"))
    prompt_token_counts = torch.from_numpy(batch.prompt_token_counts)
    vectors: Floats = pool(torch.from_numpy(states), layout, modes, prompt_token_counts).numpy()
    return vectors


def _without_skipped(
    hidden: Tensor, layout: SequenceLayout, prompt_token_counts: Tensor
) -> tuple[Tensor, PooledRows]:
    # Indices are computed on the host: otherwise the host would wait for the device to learn their
    # number.
    counts = torch.tensor(layout.host_lengths)
    lengths = (counts - prompt_token_counts).clamp(min=0)
    starts = lengths.cumsum(0) - lengths
    shift = (counts.cumsum(0) - counts + prompt_token_counts - starts).repeat_interleave(lengths)
    rows = torch.arange(len(shift)) + shift
    rows, starts, lengths, prompt_token_counts = to_device(
        hidden.device, rows, starts, lengths, prompt_token_counts
    )
    return hidden.index_select(0, rows), PooledRows(starts, lengths, prompt_token_counts)


def _reduce(hidden: Tensor, pooled_rows: PooledRows, how: str) -> Tensor:
    return torch.segment_reduce(hidden, how, lengths=pooled_rows.lengths, axis=0, unsafe=True)


def _with_zero_row(hidden: Tensor) -> Tensor:
    # An empty sequence at the end indexes this row.
    return torch.cat([hidden, hidden.new_zeros(1, hidden.shape[1])])
