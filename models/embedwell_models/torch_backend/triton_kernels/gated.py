"""Gated activation: act(gate) * up, of one product whose columns are both.

T tokens, I the width of the feed-forward network.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit  # type: ignore[untyped-decorator]
def _activated(x: tl.tensor, activation: tl.constexpr) -> tl.tensor:
    # The names of linear.ACTIVATIONS. tanh(z) = 2 sigmoid(2 z) - 1, as Triton has no tanh.
    if activation == "gelu":
        y = 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))
    elif activation == "gelu_tanh":
        y = x * tl.sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x))
    elif activation == "gelu_sigmoid":
        y = x * tl.sigmoid(1.702 * x)
    elif activation == "silu":
        y = x * tl.sigmoid(x)
    elif activation == "relu":
        y = tl.where(x < 0.0, 0.0, x)  # unlike a maximum, NaN stays NaN
    elif activation == "tanh":
        y = 2.0 * tl.sigmoid(2.0 * x) - 1.0
    else:
        tl.static_assert(activation == "none")
        y = x
    return y


@triton.jit  # type: ignore[untyped-decorator]
def gated_kernel(
    both: tl.tensor,
    out: tl.tensor,
    width: tl.constexpr,
    block: tl.constexpr,
    activation: tl.constexpr,
) -> None:
    """Out = act(both[:, :width]) * both[:, width:]; a program for a part of a row."""
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * block + tl.arange(0, block)
    inside = columns < width
    gate = tl.load(both + row * 2 * width + columns, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(both + row * 2 * width + width + columns, mask=inside, other=0.0)
    gated = _activated(gate, activation) * up.to(tl.float32)
    tl.store(out + row * width + columns, gated.to(out.dtype.element_ty), mask=inside)


def gated(both: Tensor, activation: str) -> Tensor:
    """Return act(gate) * up: (T, 2 I), the gate's columns first -> (T, I)."""
    rows, width = both.shape[0], both.shape[1] // 2
    out = torch.empty(rows, width, dtype=both.dtype, device=both.device)
    block = min(triton.next_power_of_2(width), 1024)
    if rows:
        gated_kernel[(rows, triton.cdiv(width, block))](
            both.contiguous(), out, width=width, block=block, activation=activation
        )
    return out
