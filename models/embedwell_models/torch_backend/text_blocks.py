"""Pooling of wide results over the tokens of each text, a block of rows at a time.

T tokens of B texts, R rows of a block, D hidden size, V width of the results.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import Literal

import torch
from torch import Tensor

from embedwell_models.torch_backend.sequence_layout import SequenceLayout

_ROWS = 64  # rows whose results are in memory at once
_ROWS_ON_GPU = 1024

Pooling = Literal["max", "sum"]


def pool_by_text(
    x: Tensor, layout: SequenceLayout, compute: Callable[[Tensor], Tensor], pooling: Pooling
) -> Tensor:
    """Pool the results of each text: (T, D) -> (B, V).

    compute: results that are not negative, (R, D) -> (R, V). A GPU computes those of several texts
    at once. On a CPU, where the bits of a product may depend on its number of rows, each text has
    blocks of its own.
    """
    lengths = [*layout.host_lengths]
    if x.device.type == "cpu":
        texts = torch.split(x, lengths)
        return torch.stack([_pool_text(rows, compute, pooling, _ROWS) for rows in texts])
    blocks = [*text_blocks(lengths, _ROWS_ON_GPU)]
    parts = torch.split(x, [sum(lengths[block.start : block.stop]) for block in blocks])
    pooled = []
    for block, rows in zip(blocks, parts, strict=True):
        if len(block) == 1:
            pooled.append(_pool_text(rows, compute, pooling, _ROWS_ON_GPU)[None].float())
            continue
        counts = layout.lengths[block.start : block.stop]
        values = compute(rows).float()
        pooled.append(
            torch.segment_reduce(values, pooling, lengths=counts, axis=0, initial=0, unsafe=True)
        )
    return torch.cat(pooled)


def text_blocks(lengths: Sequence[int], rows: int) -> Iterator[range]:
    """Yield the indices of consecutive texts that have at most `rows` rows, or of a longer text."""
    first = total = 0
    for index, length in enumerate(lengths):
        if index > first and total + length > rows:
            yield range(first, index)
            first, total = index, 0
        total += length
    yield range(first, len(lengths))


def _pool_text(
    rows: Tensor, compute: Callable[[Tensor], Tensor], pooling: Pooling, size: int
) -> Tensor:
    values = map(compute, torch.split(rows, size))
    if pooling == "sum":
        return reduce(torch.add, (block.sum(dim=0) for block in values))
    # A text without rows has zeros.
    return reduce(
        torch.maximum, (block.amax(dim=0) if len(block) else block.sum(dim=0) for block in values)
    )
