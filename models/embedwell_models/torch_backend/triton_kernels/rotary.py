"""Rotation of queries and keys in place.

T tokens, H heads, Dh head size, R rotated features of a head.
"""

import triton
import triton.language as tl
from torch import Tensor


@triton.jit  # type: ignore[untyped-decorator]
def rotary_kernel(  # noqa: PLR0913, PLR0917 - kernels take single values
    x: tl.tensor,
    cos: tl.tensor,
    sin: tl.tensor,
    row_stride: tl.tensor,
    head_stride: tl.tensor,
    heads: tl.constexpr,
    half: tl.constexpr,
    head_block: tl.constexpr,
    half_block: tl.constexpr,
    interleaved: tl.constexpr,
) -> None:
    """Rotate heads in place; a program for some heads of a row."""
    row = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1) * head_block + tl.arange(0, head_block)
    pair = tl.arange(0, half_block)
    inside = (head < heads)[:, None] & (pair < half)[None, :]
    place = row * half + pair
    c = tl.load(cos + place, mask=pair < half, other=0.0).to(tl.float32)[None, :]
    s = tl.load(sin + place, mask=pair < half, other=0.0).to(tl.float32)[None, :]
    first = x + row * row_stride + head[:, None] * head_stride
    if interleaved:
        first += 2 * pair[None, :]
        second = first + 1
    else:
        first += pair[None, :]
        second = first + half
    a = tl.load(first, mask=inside, other=0.0).to(tl.float32)
    b = tl.load(second, mask=inside, other=0.0).to(tl.float32)
    tl.store(first, (a * c - b * s).to(x.dtype.element_ty), mask=inside)
    tl.store(second, (a * s + b * c).to(x.dtype.element_ty), mask=inside)


def rotate_in_place(heads: Tensor, cos: Tensor, sin: Tensor, *, interleaved: bool) -> Tensor:
    """Rotate the first R features of heads (T, H, Dh), whose features are contiguous; return them.

    cos, sin: (T, R / 2). interleaved: whether pairs are the columns (2i, 2i + 1); otherwise they
    are (i, i + R / 2).
    """
    rows, count, _ = heads.shape
    half = cos.shape[1]
    assert heads.stride(2) == 1 and cos.is_contiguous() and sin.is_contiguous()
    half_block = triton.next_power_of_2(half)
    head_block = min(triton.next_power_of_2(count), max(1, 1024 // half_block))
    if rows:
        rotary_kernel[(rows, triton.cdiv(count, head_block))](
            *(heads, cos, sin, heads.stride(0), heads.stride(1)),
            heads=count,
            half=half,
            head_block=head_block,
            half_block=half_block,
            interleaved=interleaved,
        )
    return heads
