"""Layout of the sequences in a packed batch, built once and read by every layer."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from embedwell_models.encoder.batch_shape import BatchShape
from embedwell_models.torch_backend.tensors import to_device

Integers = Sequence[int] | npt.NDArray[np.integer]


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

    def pad(self, x: Tensor) -> Tensor:
        """Read the rows of the group: (T, H, ...) -> (N, H, P, ...)."""
        padded = x.index_select(0, self.rows).view(self.count, self.length, *x.shape[1:])
        return padded.transpose(1, 2)


R = TypeVar("R")

LayoutFunction = Callable[["SequenceLayout"], R]
"""Function that computes a value that depends only on the layout."""


class SequenceLayout:
    """Boundaries of B concatenated sequences; padding rows follow the `tokens` rows of tokens.

    All that a pass reads of them is one int32 vector in the device's memory, which gets it in one
    asynchronous copy. host_lengths: the lengths on the host. limits_keys: whether some tokens are
    not attended to. skips: whether some tokens are not pooled.
    """

    def __init__(  # noqa: PLR0913 - three are keyword-only
        self,
        lengths: Sequence[int],
        device: torch.device,
        dtype: torch.dtype = torch.float32,
        shape: BatchShape | None = None,
        *,
        ids: Integers = (),
        key_counts: Integers | None = None,
        skipped: Integers | None = None,
    ) -> None:
        """dtype: type of the attention and its masks. shape: by default BatchShape.of(lengths).

        ids: of all tokens; by default zeros. key_counts: number of first tokens of each sequence
        that are attended to; by default all. skipped: number of its first tokens that are not
        pooled; by default none.
        """
        self._device, self._dtype, self.host_lengths = device, dtype, lengths
        self.shape = shape or BatchShape.of(lengths)
        self.tokens, self.rows = sum(lengths), self.shape.rows
        self.limits_keys = key_counts is not None
        self.skips = skipped is not None and any(skipped)
        self._host_key_counts = np.array(lengths if key_counts is None else key_counts)
        self.host_skipped = np.array([0] * len(lengths) if skipped is None else skipped)
        self._host = self._pack(ids)
        self._cache: dict[Hashable, Any] = {}

    def cached(self, key: Hashable, compute: LayoutFunction[R]) -> R:
        """Return a value that depends only on the layout, computed once for all layers."""
        if key not in self._cache:
            self._cache[key] = compute(self)
        value: R = self._cache[key]
        return value

    def without_cache(self) -> "SequenceLayout":
        """Return a layout in the same memory, from which all values are computed again."""
        layout = copy(self)
        layout._cache = {}
        return layout

    @cached_property
    def memory(self) -> Tensor:
        """The vector on the device, of equal length in all layouts of one shape."""
        # Only copies of pinned memory are asynchronous; torch reuses the memory after the copy.
        return self._host.to(self._device, non_blocking=True)

    def move_to(self, memory: Tensor) -> None:
        """Copy the vector to another layout's memory, of one shape, before any of it is read."""
        memory.copy_(self._host, non_blocking=True)
        self.memory = memory

    @cached_property
    def cu_seqlens(self) -> Tensor:
        """Cumulative sequence lengths in FlashAttention's format: (max_sequences + 1,).

        Further sequences of the shape are empty. Padding rows belong to no sequence.
        """
        return self._parts[0][: self.shape.max_sequences + 1]

    @property
    def positions(self) -> Tensor:
        """Position of each token in its sequence; 0 for padding rows: (rows,)."""
        return self._parts[1]

    @property
    def ids(self) -> Tensor:
        """Token ids; 0 for padding rows: (rows,)."""
        return self._parts[2]

    @property
    def key_counts(self) -> Tensor:
        """Attended tokens of each sequence of `cu_seqlens`: (max_sequences,)."""
        return self._parts[3][: self.shape.max_sequences]

    @property
    def skipped(self) -> Tensor:
        """First tokens of each of B sequences that are not pooled: (B,)."""
        return self._parts[4][: len(self.host_lengths)]

    @property
    def starts(self) -> Tensor:
        """First row of each of B sequences: (B,)."""
        return self.cu_seqlens[: len(self.host_lengths)]

    @property
    def lengths(self) -> Tensor:
        """Number of tokens of each of B sequences: (B,)."""
        return self.cu_seqlens[1 : len(self.host_lengths) + 1] - self.starts

    @cached_property
    def attended(self) -> Tensor:
        """Whether each row is attended to, padding rows included: (rows,)."""
        counts = self.key_counts[: len(self.host_lengths)]
        of_rows = counts.repeat_interleave(self.lengths, output_size=self.tokens)
        attended = torch.zeros_like(self.positions, dtype=torch.bool)
        attended[: self.tokens] = self.positions[: self.tokens] < of_rows
        return attended

    @property
    def _sizes(self) -> list[int]:
        # Each part begins at 16 bytes, because Triton compiles a kernel again for other addresses.
        sequences = -(-(self.shape.max_sequences + 1) // 4) * 4
        return [sequences, self.rows, self.rows, sequences, sequences]

    @cached_property
    def _parts(self) -> Sequence[Tensor]:
        return torch.split(self.memory, self._sizes)

    def _pack(self, ids: Integers) -> Tensor:
        pinned = self._device.type == "cuda"
        host = torch.zeros(sum(self._sizes), dtype=torch.int32, pin_memory=pinned)
        parts = [part.numpy() for part in torch.split(host, self._sizes)]
        ends, positions, packed_ids, key_counts, skipped = parts
        count, counts = len(self.host_lengths), np.array(self.host_lengths, dtype=np.int32)
        ends[1:] = self.tokens
        ends[1 : count + 1] = counts.cumsum()
        positions[: self.tokens] = np.arange(self.tokens) - ends[:count].repeat(counts)
        packed_ids[: len(ids)] = ids
        key_counts[:count], skipped[:count] = self._host_key_counts, self.host_skipped
        return host

    @cached_property
    def groups(self) -> list[PaddedGroup]:
        """Groups of sequences by padded length, for padded attention."""
        members = defaultdict(list)
        for index, length in enumerate(self.host_lengths):
            members[padded(length, self._device)].append(index)
        return [self._group(*group) for group in members.items()]

    def _group(self, length: int, members: list[int]) -> PaddedGroup:
        counts = torch.tensor(self.host_lengths)
        column = torch.arange(length)
        is_token = column < counts[members, None]
        starts = (counts.cumsum(0) - counts)[members, None]
        # Padding reads the first row of its own sequence, so that NaN or infinity does not spread
        # from another sequence.
        rows = torch.where(is_token, starts + column, starts).flatten()
        slots = is_token.flatten().nonzero().flatten()
        key_counts = torch.from_numpy(self._host_key_counts)[members, None]
        keys = (column < key_counts).flatten().nonzero().flatten()
        rows, slots, targets, keys = to_device(self._device, rows, slots, rows[slots], keys)
        mask = torch.full(rows.shape, float("-inf"), dtype=self._dtype, device=self._device)
        mask = mask.index_fill_(0, keys, 0.0).view(len(members), 1, 1, length)
        return PaddedGroup(len(members), length, rows, slots, targets, mask)


def padded(length: int, device: torch.device) -> int:
    """Return the length to which a sequence is padded for attention."""
    # Depends only on the length of the sequence. On a GPU every distinct length costs a dozen
    # kernel launches in each layer, so there are few distinct lengths.
    step = 8 if device.type == "cpu" else 16 if length <= 64 else 64
    return -(-length // step) * step
