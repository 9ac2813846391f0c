"""Layout of a Funnel batch: positions of the tokens, and fewer positions in each further level.

B texts, T tokens. In the level of a block, each text has N positions. The first position is that of
the first token, which is not pooled with others.
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
    """Concatenated positions of B texts in a block.

    lengths: positions of each text. keys: number of first positions that are attended to. stride:
    tokens between two positions. pooled: (2, rows) rows of the previous level whose mean each state
    is.
    """

    lengths: Sequence[int]
    keys: Sequence[int]
    stride: int
    pooled: Tensor

    @cached_property
    def slices(self) -> list[slice]:
        """Rows of each text."""
        ends = torch.tensor(self.lengths).cumsum(0).tolist()
        return [slice(end - n, end) for end, n in zip(ends, self.lengths, strict=True)]

    @cached_property
    def attended(self) -> list[slice]:
        """Rows of each text that are attended to."""
        pairs = zip(self.slices, self.keys, strict=True)
        return [slice(part.start, part.start + keys) for part, keys in pairs]

    def pool(self, x: Tensor) -> Tensor:
        """Pool states of the previous level: (rows of the previous level, D) -> (rows, D)."""
        return (x[self.pooled[0]] + x[self.pooled[1]]) * 0.5


class FunnelLayout:
    """Levels of B texts; the first level has the tokens.

    A text with too few tokens for the pooling of each block is padded at its end; no token attends
    to the padding.

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
        """Upsample states: (rows of a level, D) -> (rows of the first level, D).

        A token that is in no position gets zeros; this happens to last tokens.
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
        # The last position of the previous level is left out; the one before may have no partner.
        second = torch.where(first + 1 < count - 1, first + 1, first)
        second[0] = 0
        lengths.append(len(first))
        keys.append(int((second < attended).sum()))
        pooled.append(torch.stack([first, second]) + part.start)
    return Level(lengths, keys, 2 * before.stride, torch.cat(pooled, dim=1).to(device))
