"""Sum of a residual and a branch, and its norm, in one pass over the rows.

T tokens, D hidden size.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from embedwell_models.torch_backend.norm import LayerNorm, Norm, RMSNorm, Sum, identity


@triton.jit  # type: ignore[untyped-decorator]
def normed_row(  # noqa: PLR0913, PLR0917 - kernels take single values
    x: tl.tensor,
    weight: tl.tensor,
    bias: tl.tensor,
    eps: tl.tensor,
    columns: tl.tensor,
    width: tl.constexpr,
    centred: tl.constexpr,
) -> tl.tensor:
    """Return the layer norm of a row if `centred`, otherwise its RMS norm."""
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
        summed = normed_row(
            *(summed, branch_weight, branch_bias, branch_eps, columns),
            *(width, branch_norm == "layer"),
        )
    if has_x:
        summed += tl.load(x + row + columns, mask=inside, other=0.0).to(tl.float32)
    if keeps_total:
        tl.store(total + row + columns, summed.to(total.dtype.element_ty), mask=inside)
    if norm != "none":
        y = normed_row(summed, weight, bias, eps, columns, width, norm == "layer")
        tl.store(out + row + columns, y.to(out.dtype.element_ty), mask=inside)


def sum_and_norm(parts: Sum, norm: Norm, keeps_sum: bool = True) -> tuple[Tensor, Tensor]:
    """Compute a sum and its norm, which is that of the sum before it is rounded: (T, D) each.

    keeps_sum: False if only the norm is read; then the sum is not written.
    """
    branch, kinds = parts.branch.contiguous(), (norm_kind(parts.branch_norm), norm_kind(norm))
    x, width = parts.residual, branch.shape[1]
    adds = x is not None or kinds[0] != "none"
    writes = adds and (keeps_sum or kinds[1] == "none")
    total = torch.empty_like(branch) if writes else branch
    out = total if kinds[1] == "none" else torch.empty_like(branch)
    block = triton.next_power_of_2(width)
    if len(branch) and out is not branch:
        sum_and_norm_kernel[(len(branch),)](
            *(branch if x is None else x.contiguous(), branch),
            *(*norm_values(parts.branch_norm, branch), total, *norm_values(norm, branch), out),
            width=width,
            block=block,
            branch_norm=kinds[0],
            has_x=x is not None,
            keeps_total=writes,
            norm=kinds[1],
            num_warps=4 if block <= 2048 else 8,
        )
    return total, out


def norm_kind(norm: Norm) -> str:
    """Return "layer", "rms" or "none"; raises KeyError for another norm."""
    kinds: dict[type, str] = {LayerNorm: "layer", RMSNorm: "rms"}
    return "none" if norm is identity else kinds[type(norm)]


def norm_values(norm: Norm, unread: Tensor) -> tuple[Tensor, Tensor, float]:
    """Return weight, bias and epsilon of a norm. unread: in place of what it lacks."""
    match norm:
        case LayerNorm(weight, bias, eps):
            return weight, bias, eps
        case RMSNorm(weight, eps):
            return weight, weight, eps
    return unread, unread, 0.0
