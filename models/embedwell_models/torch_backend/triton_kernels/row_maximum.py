"""Maximum of 0 and a linear layer over the rows of each text, without the layer's results.

SPLADE's head: Formal et al. 2021, arXiv 2109.10086. B texts, T tokens, D features, V vocabulary.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit  # type: ignore[untyped-decorator]
def row_maximum_kernel(  # noqa: PLR0913, PLR0917 - kernels take single values
    x: tl.tensor,
    weight: tl.tensor,
    bias: tl.tensor,
    ends: tl.tensor,
    out: tl.tensor,
    width: tl.constexpr,
    outputs: tl.constexpr,
    row_block: tl.constexpr,
    out_block: tl.constexpr,
    inner_block: tl.constexpr,
    precision: tl.constexpr,
) -> None:
    """Compute some outputs of a text; NaN for all of them if a feature of its rows is not finite.

    Texts are the fastest dimension of the grid, so that they share the weights in the cache.
    """
    text = tl.program_id(0)
    outs = tl.program_id(1) * out_block + tl.arange(0, out_block)
    is_out = outs < outputs
    start = tl.load(ends + text)
    stop = tl.load(ends + text + 1)
    shift = tl.load(bias + outs, mask=is_out, other=0.0).to(tl.float32)
    best = tl.zeros([out_block], dtype=tl.float32)
    poison = tl.zeros([row_block], dtype=tl.float32)
    for first in range(start, stop, row_block):
        rows = first + tl.arange(0, row_block)
        is_row = rows < stop
        logits = tl.zeros([row_block, out_block], dtype=tl.float32)
        for at in range(0, width, inner_block):
            inner = at + tl.arange(0, inner_block)
            a = tl.load(
                x + rows[:, None].to(tl.int64) * width + inner[None, :],
                mask=is_row[:, None] & (inner < width)[None, :],
                other=0.0,
            )
            b = tl.load(
                weight + outs[None, :].to(tl.int64) * width + inner[:, None],
                mask=is_out[None, :] & (inner < width)[:, None],
                other=0.0,
            )
            logits = tl.dot(a, b, logits, input_precision=precision)
            poison += tl.sum(a.to(tl.float32) * 0.0, axis=1)
        logits = tl.where(is_row[:, None], logits + shift[None, :], 0.0)
        best = tl.maximum(best, tl.max(logits, axis=0))
    best += tl.sum(poison, axis=0)
    tl.store(out + text.to(tl.int64) * outputs + outs, best, mask=is_out)


def row_maximum(x: Tensor, weight: Tensor, bias: Tensor, ends: Tensor) -> Tensor:
    """Return the maximum of 0 and x W^T + b over the rows of each text: (T, D) -> (B, V) float32.

    weight: (V, D). bias: (V,). ends: (B + 1,) int32, the first row of each text and the row after
    the last. The results of a text are NaN if one of its features is not finite.
    """
    texts, (outputs, width) = len(ends) - 1, weight.shape
    out = torch.empty(texts, outputs, dtype=torch.float32, device=x.device)
    exact = x.dtype == torch.float32
    sizes = blocks(exact)
    if texts:
        row_maximum_kernel[(texts, triton.cdiv(outputs, sizes["out_block"]))](
            *(x.contiguous(), weight.contiguous(), bias, ends, out),
            width=width,
            outputs=outputs,
            **sizes,
            precision="ieee" if exact else "tf32",
            num_warps=4 if exact else 8,
        )
    return out


def blocks(exact: bool) -> dict[str, int]:
    """Rows, outputs and features of a step of the kernel. exact: whether it is in float32."""
    rows, outputs, inner = (32, 64, 32) if exact else (64, 128, 64)
    return {"row_block": rows, "out_block": outputs, "inner_block": inner}
