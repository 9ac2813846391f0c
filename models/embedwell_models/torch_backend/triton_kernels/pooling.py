"""Pooling of the hidden states of each text.

B texts, T tokens, D hidden size.
"""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

_TILE = 32  # rows that are read at once
_COLUMNS = 64  # columns of a program


@triton.jit  # type: ignore[untyped-decorator]
def pooling_kernel(  # noqa: C901, PLR0913, PLR0917 - kernels take single values
    hidden: tl.tensor,
    ends: tl.tensor,
    skipped: tl.tensor,
    out: tl.tensor,
    out_stride: tl.tensor,
    width: tl.constexpr,
    block: tl.constexpr,
    tile: tl.constexpr,
    mode: tl.constexpr,
) -> None:
    """Pool the rows of a text, without the first `skipped`; a program for some columns of a text.

    Without rows the vector is zero.
    """
    text = tl.program_id(0)
    columns = tl.program_id(1) * block + tl.arange(0, block)
    inside = columns < width
    begin = tl.load(ends + text)
    stop = tl.load(ends + text + 1)
    start = begin + tl.load(skipped + text)
    count = tl.maximum(stop - start, 0).to(tl.float32)
    first = start
    last = stop
    if mode == "cls":
        last = tl.minimum(stop, start + 1)
    if mode == "lasttoken":
        first = tl.maximum(start, stop - 1)
    pooled = tl.zeros([block], dtype=tl.float32)
    for at in range(first, last, tile):
        rows = at + tl.arange(0, tile)
        seen = (rows < last)[:, None] & inside[None, :]
        place = hidden + rows[:, None].to(tl.int64) * width + columns[None, :]
        if mode == "max":
            x = tl.load(place, mask=seen, other=float("-inf")).to(tl.float32)
            largest = tl.max(x, axis=0)
            pooled = tl.where(at == first, largest, tl.maximum(pooled, largest))
        else:
            x = tl.load(place, mask=seen, other=0.0).to(tl.float32)
            if mode == "weightedmean":
                x *= (rows - begin + 1).to(tl.float32)[:, None]
            pooled += tl.sum(x, axis=0)
    if mode == "max":  # a maximum may hide NaN
        for at in range(first, last, tile):
            rows = at + tl.arange(0, tile)
            seen = (rows < last)[:, None] & inside[None, :]
            place = hidden + rows[:, None].to(tl.int64) * width + columns[None, :]
            x = tl.load(place, mask=seen, other=0.0).to(tl.float32)
            unknown = tl.sum((x != x).to(tl.int32), axis=0) > 0  # noqa: PLR0124 - NaN
            pooled = tl.where(unknown, float("nan"), pooled)
    some = tl.maximum(count, 1.0)
    if mode == "mean":
        pooled = pooled / some
    if mode == "mean_sqrt_len_tokens":
        pooled = pooled / tl.sqrt(some)
    if mode == "weightedmean":
        before = (start - begin).to(tl.float32)
        pooled = pooled / tl.maximum(count * (count + 1.0) / 2.0 + count * before, 1.0)
    tl.store(out + text * out_stride + columns, pooled, mask=inside)


def pool(hidden: Tensor, ends: Tensor, skipped: Tensor, modes: Sequence[str]) -> Tensor:
    """Concatenate several poolings of each text in float32: (T, D) -> (B, modes * D).

    ends: (B + 1,) int32, the first row of each text and the row after the last. skipped: (B,) int32
    number of first rows of each text that are left out. modes: names of poolings.
    """
    width = hidden.shape[1]
    texts = len(skipped)
    out = torch.empty(texts, len(modes) * width, dtype=torch.float32, device=hidden.device)
    block = min(_COLUMNS, triton.next_power_of_2(width))
    for index, mode in enumerate(modes):
        if texts:
            pooling_kernel[(texts, triton.cdiv(width, block))](
                *(hidden.contiguous(), ends, skipped, out[:, index * width :], out.stride(0)),
                width=width,
                block=block,
                tile=_TILE,
                mode=mode,
            )
    return out
