"""Layout of the sequences in a packed batch, built once and read by every layer."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any, TypeVar

import torch
from torch import Tensor

from embedwell_models.encoder.batch_shape import BatchShape
from embedwell_models.torch_backend.async_copy import to_device


@dataclass(frozen=True)
class PaddedGroup:
    """N sequences that are padded to one length P, for one attention call.

    rows: (N * P,) packed row that each slot reads. slots: (M,) slots that hold a token. targets:
    (M,) packed rows of these tokens. mask: (N, 1, 1, P) 0 for a token that is attended to, else
    -inf.
    """

    count: int
    length: int
    rows: Tensor
    slots: Tensor
    targets: Tensor
    mask: Tensor


R = TypeVar("R")

LayoutFunction = Callable[["SequenceLayout"], R]
"""Function that computes a value that depends only on the layout."""


class SequenceLayout:
    """Boundaries of B concatenated sequences; padding rows follow the `tokens` rows of tokens.

    starts, lengths: (B,) on the device. host_lengths: the lengths on the host. positions: (rows,)
    position of each token in its sequence. limits_keys: whether some tokens are not attended to.
    """

    def __init__(
        self,
        lengths: Sequence[int],
        device: torch.device,
        dtype: torch.dtype = torch.float32,
        shape: BatchShape | None = None,
        key_counts: Sequence[int] | None = None,
    ) -> None:
        """dtype: type of the attention and its masks. shape: by default BatchShape.of(lengths).

        key_counts: number of first tokens of each sequence that are attended to; by default all.
        """
        self._device, self._dtype, self.host_lengths = device, dtype, lengths
        self.shape = shape or BatchShape.of(lengths)
        self.tokens, self.rows = sum(lengths), self.shape.rows
        counts = torch.tensor(lengths, dtype=torch.int64)
        starts = counts.cumsum(0) - counts
        positions = torch.zeros(self.rows, dtype=torch.int64)
        positions[: self.tokens] = torch.arange(self.tokens) - starts.repeat_interleave(counts)
        self._host_counts, self._host_starts = counts, starts
        self.limits_keys = key_counts is not None
        self._key_counts = counts if key_counts is None else torch.tensor(key_counts)
        self.lengths, self.starts, self.positions = to_device(device, counts, starts, positions)
        self._cache: dict[Hashable, Any] = {}

    def cached(self, key: Hashable, compute: LayoutFunction[R]) -> R:
        """Return a value that depends only on the layout, computed once for all layers."""
        if key not in self._cache:
            self._cache[key] = compute(self)
        value: R = self._cache[key]
        return value

    @cached_property
    def cu_seqlens(self) -> Tensor:
        """Cumulative sequence lengths in FlashAttention's format: (max_sequences + 2,) int32.

        Further sequences of the shape are empty; the padding rows are the last sequence.
        """
        ends = [*accumulate(self.host_lengths, initial=0)]
        ends += [self.tokens] * (self.shape.max_sequences - len(self.host_lengths)) + [self.rows]
        (cu_seqlens,) = to_device(self._device, torch.tensor(ends, dtype=torch.int32))
        return cu_seqlens

    @cached_property
    def key_counts(self) -> Tensor:
        """Attended tokens of the sequences of `cu_seqlens`, all of further ones: int32."""
        further = self.shape.max_sequences + 1 - len(self.host_lengths)
        counts = [*self._key_counts.tolist(), *[self.rows] * further]
        (key_counts,) = to_device(self._device, torch.tensor(counts, dtype=torch.int32))
        return key_counts

    @cached_property
    def attended(self) -> Tensor:
        """Whether each row is attended to, padding rows included: (rows,)."""
        positions = torch.full((self.rows,), -1)
        positions[: self.tokens] = torch.arange(self.tokens)
        positions[: self.tokens] -= self._host_starts.repeat_interleave(self._host_counts)
        counts = torch.zeros(self.rows, dtype=torch.int64)
        counts[: self.tokens] = self._key_counts.repeat_interleave(self._host_counts)
        (attended,) = to_device(self._device, positions < counts)
        return attended

    @cached_property
    def groups(self) -> list[PaddedGroup]:
        """Groups of sequences by padded length, for padded attention."""
        members = defaultdict(list)
        for index, length in enumerate(self.host_lengths):
            members[_padded(length, self._device)].append(index)
        return [self._group(*group) for group in members.items()]

    def _group(self, length: int, members: list[int]) -> PaddedGroup:
        column = torch.arange(length)
        is_token = column < self._host_counts[members, None]
        starts = self._host_starts[members, None]
        # Padding reads the first row of its own sequence, so that NaN or infinity does not spread
        # from another sequence.
        rows = torch.where(is_token, starts + column, starts).flatten()
        slots = is_token.flatten().nonzero().flatten()
        keys = (column < self._key_counts[members, None]).flatten().nonzero().flatten()
        rows, slots, targets, keys = to_device(self._device, rows, slots, rows[slots], keys)
        mask = torch.full(rows.shape, float("-inf"), dtype=self._dtype, device=self._device)
        mask = mask.index_fill_(0, keys, 0.0).view(len(members), 1, 1, length)
        return PaddedGroup(len(members), length, rows, slots, targets, mask)


def _padded(length: int, device: torch.device) -> int:
    # Depends only on the length of the sequence. On a GPU every distinct length costs a dozen
    # kernel launches in each layer, so there are few distinct lengths.
    step = 8 if device.type == "cpu" else 16 if length <= 64 else 64
    return -(-length // step) * step
