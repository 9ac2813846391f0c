"""Pooling of the hidden states of each packed sequence to one vector, on a device.

B sequences, T tokens, D hidden size.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from embedwell_models.torch_backend.device import runs_triton
from embedwell_models.torch_backend.sequence_layout import SequenceLayout


@dataclass(frozen=True)
class PooledRows:
    """The pooled rows of B sequences.

    first: first pooled row of each sequence, among all rows. starts: the same among the pooled rows
    alone. skipped: number of rows before them that are not pooled.
    """

    first: Tensor
    starts: Tensor
    lengths: Tensor
    skipped: Tensor


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
    count, before = pooled_rows.lengths, pooled_rows.skipped
    # Converts row numbers to positions in the text, counted from one.
    shift = (before + 1 - pooled_rows.starts).repeat_interleave(count, output_size=len(hidden))
    weights = (torch.arange(len(hidden), device=hidden.device) + shift)[:, None]
    count = count.float()  # its square does not fit in int32
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


def pool(hidden: Tensor, layout: SequenceLayout, modes: Sequence[str]) -> Tensor:
    """Concatenate several poolings in float32: (T, D) -> (B, D * modes).

    modes: names of the poolings. A sequence of which the layout skips all rows has the zero vector.
    """
    if runs_triton(hidden.device):
        return pool_in_kernel(hidden, layout, modes)
    pooled_rows = _pooled_rows(layout)
    one_row = all(mode in _OF_ONE_ROW for mode in modes)
    states = hidden if one_row else _states(hidden, layout, pooled_rows)
    parts = [
        POOLINGS[mode](hidden if mode in _OF_ONE_ROW else states, pooled_rows) for mode in modes
    ]
    pooled = torch.cat(parts, dim=1)
    return pooled.masked_fill(pooled_rows.lengths[:, None] == 0, 0.0)


def pool_in_kernel(hidden: Tensor, layout: SequenceLayout, modes: Sequence[str]) -> Tensor:
    """Compute the same in one Triton kernel for each pooling, which reads the states once."""
    from embedwell_models.torch_backend.triton_kernels import pooling

    return pooling.pool(hidden, layout.cu_seqlens, layout.skipped, modes)


def _pooled_rows(layout: SequenceLayout) -> PooledRows:
    lengths = layout.lengths
    if not layout.skips:
        return PooledRows(layout.starts, layout.starts, lengths, layout.skipped)
    lengths = (lengths - layout.skipped).clamp(min=0)
    starts = lengths.cumsum(0, dtype=torch.int32) - lengths
    return PooledRows(layout.starts + layout.skipped, starts, lengths, layout.skipped)


def _states(hidden: Tensor, layout: SequenceLayout, pooled_rows: PooledRows) -> Tensor:
    # The pooled rows in float32, without padding rows.
    if not layout.skips:
        return hidden[: layout.tokens].to(torch.float32)
    # The host computes their number itself: otherwise it would wait for the device to learn it.
    count = int((np.array(layout.host_lengths) - layout.host_skipped).clip(min=0).sum())
    shift = pooled_rows.first - pooled_rows.starts
    shift = shift.repeat_interleave(pooled_rows.lengths, output_size=count)
    rows = torch.arange(count, dtype=torch.int32, device=hidden.device) + shift
    return hidden.index_select(0, rows).to(torch.float32)


def _reduce(hidden: Tensor, pooled_rows: PooledRows, how: str) -> Tensor:
    return torch.segment_reduce(hidden, how, lengths=pooled_rows.lengths, axis=0, unsafe=True)


def _gather(hidden: Tensor, rows: Tensor) -> Tensor:
    # Any row is read for an empty sequence, whose vector is zero.
    if not len(hidden):
        return hidden.new_zeros(len(rows), hidden.shape[1], dtype=torch.float32)
    return hidden.index_select(0, rows.clamp(0, len(hidden) - 1)).to(torch.float32)
