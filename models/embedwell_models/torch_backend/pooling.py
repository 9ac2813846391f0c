"""Pooling of the hidden states of each packed sequence to one vector, on a device.

B sequences, T tokens, D hidden size.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from embedwell_models.torch_backend.async_copy import to_device
from embedwell_models.torch_backend.device import runs_triton
from embedwell_models.torch_backend.sequence_layout import SequenceLayout


@dataclass(frozen=True)
class PooledRows:
    """The pooled rows of B sequences.

    first: first pooled row of each sequence, among all rows. starts: the same among the pooled rows
    alone. prompt_token_counts: number of rows before them that are not pooled.
    """

    first: Tensor
    starts: Tensor
    lengths: Tensor
    prompt_token_counts: Tensor


Pooling = Callable[[Tensor, PooledRows], Tensor]
"""Function that pools each sequence's hidden states: (T, D) -> (B, D).

It reads the pooled rows in float32; `cls` and `last` read all rows in any precision, because they
need few.
"""


def cls(hidden: Tensor, pooled_rows: PooledRows) -> Tensor:
    """Return the first token's state: (T, D) -> (B, D)."""
    return _gather(hidden, pooled_rows.first)


def last(hidden: Tensor, pooled_rows: PooledRows) -> Tensor:
    """Return the last token's state: (T, D) -> (B, D)."""
    return _gather(hidden, pooled_rows.first + pooled_rows.lengths - 1)


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


POOLINGS: dict[str, Pooling] = {  # the names of encoder/pooling.py
    "cls": cls,
    "max": maximum,
    "mean": mean,
    "mean_sqrt_len_tokens": mean_sqrt,
    "weightedmean": weighted_mean,
    "lasttoken": last,
}
_OF_ONE_ROW = ("cls", "lasttoken")


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
    skipped = prompt_token_counts
    if skipped is not None and not skipped.any():
        skipped = None
    if runs_triton(hidden.device):
        return pool_in_kernel(hidden, layout, modes, skipped)
    pooled_rows = _pooled_rows(layout, skipped)
    one_row = all(mode in _OF_ONE_ROW for mode in modes)
    states = hidden if one_row else _states(hidden, layout, skipped)
    parts = [
        POOLINGS[mode](hidden if mode in _OF_ONE_ROW else states, pooled_rows) for mode in modes
    ]
    pooled = torch.cat(parts, dim=1)
    return pooled.masked_fill(pooled_rows.lengths[:, None] == 0, 0.0)


def pool_in_kernel(
    hidden: Tensor, layout: SequenceLayout, modes: Sequence[str], skipped: Tensor | None
) -> Tensor:
    """Compute the same in one Triton kernel for each pooling, which reads the states once."""
    from embedwell_models.torch_backend.triton_kernels import pooling

    ends = layout.cu_seqlens[: len(layout.host_lengths) + 1]
    if skipped is None:
        counts = torch.zeros_like(layout.lengths, dtype=torch.int32)
    else:
        (counts,) = to_device(hidden.device, skipped.to(torch.int32))
    return pooling.pool(hidden, ends, counts, modes)


def _pooled_rows(layout: SequenceLayout, skipped: Tensor | None) -> PooledRows:
    if skipped is None:
        nothing = torch.zeros_like(layout.lengths)
        return PooledRows(layout.starts, layout.starts, layout.lengths, nothing)
    counts = torch.tensor(layout.host_lengths)
    lengths = (counts - skipped).clamp(min=0)
    first = counts.cumsum(0) - counts + skipped
    starts = lengths.cumsum(0) - lengths
    return PooledRows(*to_device(layout.starts.device, first, starts, lengths, skipped))


def _states(hidden: Tensor, layout: SequenceLayout, skipped: Tensor | None) -> Tensor:
    # The pooled rows in float32, without padding rows.
    if skipped is None:
        return hidden[: layout.tokens].to(torch.float32)
    # Indices are computed on the host: otherwise the host would wait for the device to learn their
    # number.
    counts = torch.tensor(layout.host_lengths)
    lengths = (counts - skipped).clamp(min=0)
    shift = (counts.cumsum(0) - counts + skipped - lengths.cumsum(0) + lengths).repeat_interleave(
        lengths
    )
    (rows,) = to_device(hidden.device, torch.arange(len(shift)) + shift)
    return hidden.index_select(0, rows).to(torch.float32)


def _reduce(hidden: Tensor, pooled_rows: PooledRows, how: str) -> Tensor:
    return torch.segment_reduce(hidden, how, lengths=pooled_rows.lengths, axis=0, unsafe=True)


def _gather(hidden: Tensor, rows: Tensor) -> Tensor:
    # Any row is read for an empty sequence, whose vector is zero.
    if not len(hidden):
        return hidden.new_zeros(len(rows), hidden.shape[1], dtype=torch.float32)
    return hidden.index_select(0, rows.clamp(0, len(hidden) - 1)).to(torch.float32)
