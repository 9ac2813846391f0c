"""The positions of a batch of Funnel: those of the tokens, and ever fewer, pooled in pairs.

B texts, T tokens. At the level of a block, each text has N positions; the first is that of its
first token, which is not pooled with others.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor

from embedwell_models.encoder.batch import Batch


@dataclass(frozen=True)
class Level:
    """The positions of B texts in a block, concatenated.

    lengths: of each text. keys: how many of them are attended to, the first ones. stride: tokens
    from one to the next. pooled: (2, rows) the rows of the level before whose mean each state is.
    """

    lengths: Sequence[int]
    keys: Sequence[int]
    stride: int
    pooled: Tensor

    @cached_property
    def slices(self) -> list[slice]:
        """The rows of each text."""
        ends = torch.tensor(self.lengths).cumsum(0).tolist()
        return [slice(end - n, end) for end, n in zip(ends, self.lengths, strict=True)]

    @cached_property
    def attended(self) -> list[slice]:
        """The rows of each text that are attended to."""
        pairs = zip(self.slices, self.keys, strict=True)
        return [slice(part.start, part.start + keys) for part, keys in pairs]

    def pool(self, x: Tensor) -> Tensor:
        """(rows of the level before, D) -> (rows, D)."""
        return (x[self.pooled[0]] + x[self.pooled[1]]) * 0.5


class FunnelLayout:
    """The levels of B texts, the first of which has the tokens.

    A text of too few tokens to be pooled for each block has padding at its end, which no token
    attends to.

    levels: one for each block. ids: (rows of the first level,), 0 for padding. is_token: (rows of
    the first level,).
    """

    def __init__(self, batch: Batch, blocks: int, device: torch.device) -> None:
        self._device = device
        counts = batch.lengths.tolist()
        least = 2 ** (blocks - 1) + 1
        lengths = [max(count, least) for count in counts]
        keys = counts if batch.key_counts is None else batch.key_counts.tolist()
        nothing = torch.empty(2, 0, dtype=torch.int64)
        self.levels = [Level(lengths, keys, 1, nothing)]
        for _ in range(blocks - 1):
            self.levels.append(_pooled(self.levels[-1], device))
        is_token = torch.cat(
            [torch.arange(n) < count for n, count in zip(lengths, counts, strict=True)]
        )
        ids = torch.zeros(len(is_token), dtype=torch.int64)
        ids[is_token] = torch.from_numpy(batch.ids)
        self.ids, self.is_token = ids.to(device), is_token.to(device)

    def upsample(self, x: Tensor, level: int) -> Tensor:
        """(rows of a level, D) -> (rows of the first level, D).

        Zeros where a token, of which the last ones are left out, is in no position.
        """
        if not level:
            return x
        rows = []
        for tokens, part in zip(self.levels[0].lengths, self.levels[level].slices, strict=True):
            position = (torch.arange(tokens) - 1).div(
                self.levels[level].stride, rounding_mode="floor"
            ) + 1
            is_missing = position >= part.stop - part.start
            rows.append((position + part.start).masked_fill(is_missing, len(x)))
        return F.pad(x, (0, 0, 0, 1))[torch.cat(rows).to(self._device)]


def _pooled(before: Level, device: torch.device) -> Level:
    lengths, keys, pooled = [], [], []
    for part, attended in zip(before.slices, before.keys, strict=True):
        count = part.stop - part.start
        first = (2 * torch.arange((count + 1) // 2) - 1).clamp(min=0)
        # The last position of the level before is left out; the one before may have no other.
        second = torch.where(first + 1 < count - 1, first + 1, first)
        second[0] = 0
        lengths.append(len(first))
        keys.append(int((second < attended).sum()))
        pooled.append(torch.stack([first, second]) + part.start)
    return Level(lengths, keys, 2 * before.stride, torch.cat(pooled, dim=1).to(device))
