"""Rotation of queries and keys in place, after their norms.

T tokens, H heads, Dh head size, R rotated features of a head.
"""

import triton
import triton.language as tl
from torch import Tensor

from embedwell_models.torch_backend.norm import HeadNorms


@triton.jit  # type: ignore[untyped-decorator]
def _scaled(  # noqa: PLR0913, PLR0917 - kernels take single values
    x: tl.tensor,
    divisor: tl.tensor,
    weight: tl.tensor,
    bias: tl.tensor,
    place: tl.tensor,
    inside: tl.tensor,
    centred: tl.constexpr,
) -> tl.tensor:
    y = x / divisor[:, None] * tl.load(weight + place, mask=inside, other=0.0).to(tl.float32)
    if centred:
        y += tl.load(bias + place, mask=inside, other=0.0).to(tl.float32)
    return y


@triton.jit  # type: ignore[untyped-decorator]
def rotary_kernel(  # noqa: PLR0913, PLR0917
    x: tl.tensor,
    cos: tl.tensor,
    sin: tl.tensor,
    weight: tl.tensor,
    bias: tl.tensor,
    eps: tl.tensor,
    row_stride: tl.tensor,
    head_stride: tl.tensor,
    heads: tl.constexpr,
    query_heads: tl.constexpr,
    half: tl.constexpr,
    rest: tl.constexpr,
    head_block: tl.constexpr,
    half_block: tl.constexpr,
    rest_block: tl.constexpr,
    interleaved: tl.constexpr,
    norm: tl.constexpr,
) -> None:
    """Norm and rotate heads in place; a program for some heads of a row.

    rest: features of a head that are not rotated. norm: "layer", "rms" or "none".
    """
    row = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1) * head_block + tl.arange(0, head_block)
    pair = tl.arange(0, half_block)
    inside = (head < heads)[:, None] & (pair < half)[None, :]
    first = pair[None, :]
    second = first + half
    if interleaved:
        first = 2 * pair[None, :]
        second = first + 1
    of_head = x + row * row_stride + head[:, None] * head_stride
    a = tl.load(of_head + first, mask=inside, other=0.0).to(tl.float32)
    b = tl.load(of_head + second, mask=inside, other=0.0).to(tl.float32)
    if norm != "none":
        size: tl.constexpr = 2 * half + rest
        feature = tl.arange(0, rest_block)[None, :]
        is_rest = (head < heads)[:, None] & (feature < rest)
        unrotated = of_head + 2 * half + feature
        c = tl.load(unrotated, mask=is_rest, other=0.0).to(tl.float32)
        if norm == "layer":
            mean = (tl.sum(a, axis=1) + tl.sum(b, axis=1) + tl.sum(c, axis=1)) / size
            a = tl.where(inside, a - mean[:, None], 0.0)
            b = tl.where(inside, b - mean[:, None], 0.0)
            c = tl.where(is_rest, c - mean[:, None], 0.0)
        squares = tl.sum(a * a, axis=1) + tl.sum(b * b, axis=1) + tl.sum(c * c, axis=1)
        divisor = tl.sqrt(squares / size + eps)
        of_kind = tl.where(head < query_heads, 0, size)[:, None]
        a = _scaled(a, divisor, weight, bias, of_kind + first, inside, norm == "layer")
        b = _scaled(b, divisor, weight, bias, of_kind + second, inside, norm == "layer")
        if rest > 0:
            place = of_kind + 2 * half + feature
            c = _scaled(c, divisor, weight, bias, place, is_rest, norm == "layer")
            tl.store(unrotated, c.to(x.dtype.element_ty), mask=is_rest)
    angle = row * half + pair
    turn = tl.load(cos + angle, mask=pair < half, other=0.0).to(tl.float32)[None, :]
    s = tl.load(sin + angle, mask=pair < half, other=0.0).to(tl.float32)[None, :]
    tl.store(of_head + first, (a * turn - b * s).to(x.dtype.element_ty), mask=inside)
    tl.store(of_head + second, (a * s + b * turn).to(x.dtype.element_ty), mask=inside)


def rotate_in_place(
    heads: Tensor,
    cos: Tensor,
    sin: Tensor,
    *,
    interleaved: bool,
    norms: HeadNorms | None = None,
) -> Tensor:
    """Rotate the first R features of heads (T, H, Dh), whose features are contiguous; return them.

    cos, sin: (T, R / 2). interleaved: whether pairs are the columns (2i, 2i + 1); otherwise they
    are (i, i + R / 2). norms: of the heads, computed before.
    """
    rows, count, size = heads.shape
    half = cos.shape[1]
    assert heads.stride(2) == 1 and cos.is_contiguous() and sin.is_contiguous()
    half_block = triton.next_power_of_2(half)
    head_block = min(triton.next_power_of_2(count), max(1, 1024 // half_block))
    parameters = (norms.weights, norms.biases, norms.eps) if norms else (cos, cos, 0.0)
    if rows:
        rotary_kernel[(rows, triton.cdiv(count, head_block))](
            *(heads, cos, sin, *parameters, heads.stride(0), heads.stride(1)),
            heads=count,
            query_heads=norms.query_heads if norms else count,
            half=half,
            rest=size - 2 * half,
            head_block=head_block,
            half_block=half_block,
            rest_block=triton.next_power_of_2(max(1, size - 2 * half)),
            interleaved=interleaved,
            norm=("layer" if norms.centred else "rms") if norms else "none",
        )
    return heads
