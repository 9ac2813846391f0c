"""Where each sequence of a packed batch lies; built once per batch and read by every layer."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from models.encoder.async_copy import send


@dataclass(frozen=True)
class Group:
    """Sequences of one padded length P, attended together.

    rows: (N * P,) the packed row that each slot reads. slots: (M,) the slots that hold a token.
    targets: (M,) the packed rows of those tokens. mask: (N, 1, 1, P) 0 for a token, else -inf.
    """

    count: int
    length: int
    rows: Tensor
    slots: Tensor
    targets: Tensor
    mask: Tensor


@dataclass(frozen=True)
class Shape:
    """The sizes that a pass is computed with: batches of one shape launch the same kernels.

    rows: of the hidden states. sequences: at most so many. longest: no sequence has more rows,
    and there are no more rows of none.
    """

    rows: int
    sequences: int
    longest: int

    @classmethod
    def of(cls, lengths: Sequence[int]) -> "Shape":
        """The row count is rounded up so that matrix sizes repeat from batch to batch."""
        tokens = sum(lengths)
        rows = round_up(tokens)
        return cls(rows, len(lengths), max(rows - tokens, *lengths))


Recipe = Callable[["Packing"], Any]
"""Makes what depends on where the sequences lie."""


class Packing:
    """Borders of B sequences laid one after another in T rows.

    The rows after `tokens` belong to no sequence.
    """

    def __init__(
        self,
        lengths: Sequence[int],
        device: torch.device,
        dtype: torch.dtype = torch.float32,
        shape: Shape | None = None,
    ) -> None:
        """dtype: of the masks, the one that attention computes in. shape: by default their own."""
        self._device, self._dtype, self.sizes = device, dtype, lengths
        self.shape = shape or Shape.of(lengths)
        self.tokens, self.rows = sum(lengths), self.shape.rows
        counts = torch.tensor(lengths, dtype=torch.int64)
        starts = counts.cumsum(0) - counts
        positions = torch.zeros(self.rows, dtype=torch.int64)
        positions[: self.tokens] = torch.arange(self.tokens) - starts.repeat_interleave(counts)
        self._counts, self._firsts = counts, starts
        self.lengths, self.starts, self.positions = send(device, counts, starts, positions)
        self._recalled: dict[Hashable, Any] = {}

    def recall(self, key: Hashable, make: Recipe) -> Any:
        """What depends on the batch alone and is the same in every layer: made once."""
        if key not in self._recalled:
            self._recalled[key] = make(self)
        return self._recalled[key]

    @cached_property
    def borders(self) -> Tensor:
        """Where each sequence starts and the last one ends, as kernels read it: int32.

        (sequences + 2,): the shape's further sequences are empty, and the rows of none are one.
        """
        ends = [*accumulate(self.sizes, initial=0)]
        ends += [self.tokens] * (self.shape.sequences - len(self.sizes)) + [self.rows]
        (borders,) = send(self._device, torch.tensor(ends, dtype=torch.int32))
        return borders

    @cached_property
    def groups(self) -> list[Group]:
        """The sequences by padded length; computed for the attention that wants them."""
        members = defaultdict(list)
        for index, length in enumerate(self.sizes):
            members[_padded(length, self._device)].append(index)
        return [self._group(*group) for group in members.items()]

    def _group(self, length: int, members: list[int]) -> Group:
        column = torch.arange(length)
        holds = column < self._counts[members, None]
        starts = self._firsts[members, None]
        # Padding reads the sequence's own first row: another's, were it not finite, would spoil it.
        rows = torch.where(holds, starts + column, starts).flatten()
        slots = holds.flatten().nonzero().flatten()
        rows, slots, targets = send(self._device, rows, slots, rows[slots])
        mask = torch.full(rows.shape, float("-inf"), dtype=self._dtype, device=self._device)
        mask = mask.index_fill_(0, slots, 0.0).view(len(members), 1, 1, length)
        return Group(len(members), length, rows, slots, targets, mask)


def _padded(length: int, device: torch.device) -> int:
    # A function of the sequence's own length alone. On a GPU every length in a batch is a dozen
    # launches more in every layer: there are few.
    step = 8 if device.type == "cpu" else 16 if length <= 64 else 64
    return -(-length // step) * step


def round_up(tokens: int) -> int:
    """The row count used for a number of tokens: few distinct values, little waste."""
    step = 4 if tokens <= 32 else 16 if tokens <= 512 else 64
    return -(-tokens // step) * step
