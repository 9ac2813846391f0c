"""Sum of a residual and a branch, and its norm, in one pass over the rows.

T tokens, D hidden size.
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor


@dataclass(frozen=True)
class NormWeights:
    """Weights of a norm: (D,) each. bias: None for RMS norm, else LayerNorm."""

    weight: Tensor
    bias: Tensor | None
    eps: float


@triton.jit  # type: ignore[untyped-decorator]
def _norm(  # noqa: PLR0913, PLR0917 - kernels take single values
    x: tl.tensor,
    weight: tl.tensor,
    bias: tl.tensor,
    eps: tl.tensor,
    columns: tl.tensor,
    width: tl.constexpr,
    centred: tl.constexpr,
) -> tl.tensor:
    inside = columns < width
    if centred:
        x = tl.where(inside, x - tl.sum(x, axis=0) / width, 0.0)
    y = x / tl.sqrt(tl.sum(x * x, axis=0) / width + eps)
    y *= tl.load(weight + columns, mask=inside, other=0.0).to(tl.float32)
    if centred:
        y += tl.load(bias + columns, mask=inside, other=0.0).to(tl.float32)
    return y


@triton.jit  # type: ignore[untyped-decorator]
def sum_and_norm_kernel(  # noqa: PLR0913, PLR0917
    x: tl.tensor,
    branch: tl.tensor,
    branch_weight: tl.tensor,
    branch_bias: tl.tensor,
    branch_eps: tl.tensor,
    total: tl.tensor,
    weight: tl.tensor,
    bias: tl.tensor,
    eps: tl.tensor,
    out: tl.tensor,
    width: tl.constexpr,
    block: tl.constexpr,
    branch_norm: tl.constexpr,
    has_x: tl.constexpr,
    keeps_total: tl.constexpr,
    norm: tl.constexpr,
) -> None:
    """total = x + branch_norm(branch), out = norm(total); a program for each row.

    branch_norm, norm: "layer", "rms" or "none".
    """
    row = tl.program_id(0).to(tl.int64) * width
    columns = tl.arange(0, block)
    inside = columns < width
    summed = tl.load(branch + row + columns, mask=inside, other=0.0).to(tl.float32)
    if branch_norm != "none":
        summed = _norm(
            *(summed, branch_weight, branch_bias, branch_eps, columns),
            *(width, branch_norm == "layer"),
        )
    if has_x:
        summed += tl.load(x + row + columns, mask=inside, other=0.0).to(tl.float32)
    if keeps_total:
        tl.store(total + row + columns, summed.to(total.dtype.element_ty), mask=inside)
    if norm != "none":
        y = _norm(summed, weight, bias, eps, columns, width, norm == "layer")
        tl.store(out + row + columns, y.to(out.dtype.element_ty), mask=inside)


def sum_and_norm(  # noqa: PLR0913 - two are keyword-only
    x: Tensor | None,
    branch: Tensor,
    norm: NormWeights | None,
    branch_norm: NormWeights | None = None,
    *,
    keep_sum: bool = True,
    dtype: torch.dtype | None = None,
) -> tuple[Tensor, Tensor]:
    """Return x + branch_norm(branch) and the norm of this sum: (T, D) each.

    x: None for zeros. norm, branch_norm: None for none. keep_sum: whether the sum is needed; the
    norm is returned in its place if not. dtype: of the norm; by default that of the branch.
    """
    branch = branch.contiguous()
    out = torch.empty_like(branch, dtype=dtype)
    total = torch.empty_like(branch) if keep_sum else out
    width = branch.shape[1]
    block = triton.next_power_of_2(width)
    if len(branch):
        sum_and_norm_kernel[(len(branch),)](
            *(branch if x is None else x.contiguous(), branch),
            *(*_parts(branch_norm, branch), total, *_parts(norm, branch), out),
            width=width,
            block=block,
            branch_norm=_kind(branch_norm),
            has_x=x is not None,
            keeps_total=keep_sum,
            norm=_kind(norm),
            num_warps=4 if block <= 2048 else 8,
        )
    return total, out if norm else total


def _kind(norm: NormWeights | None) -> str:
    return "none" if norm is None else "rms" if norm.bias is None else "layer"


def _parts(norm: NormWeights | None, unread: Tensor) -> tuple[Tensor, Tensor, float]:
    if norm is None:
        return unread, unread, 0.0
    return norm.weight, norm.weight if norm.bias is None else norm.bias, norm.eps
