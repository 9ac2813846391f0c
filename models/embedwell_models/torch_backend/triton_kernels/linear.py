"""Linear layers in half precision on GPUs, with few kernel launches.

B texts, T tokens, D features, I the width of the feed-forward network, V vocabulary.
"""

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor

from embedwell_models.torch_backend.linear import (
    Linear,
    RowMaximum,
    TorchLinearFactory,
    WeightAndBias,
)
from embedwell_models.torch_backend.sequence_layout import SequenceLayout

_USE_GELU = {"relu": False, "gelu": True, "gelu_tanh": True}


@triton.jit  # type: ignore[untyped-decorator]
def _activated(x: tl.tensor, activation: tl.constexpr) -> tl.tensor:
    # The names in torch_backend/linear.py. tanh(z) = 2 sigmoid(2 z) - 1, as Triton has no tanh.
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
            logits = tl.dot(a, b, logits, input_precision="ieee")
            poison += tl.sum(a.to(tl.float32) * 0.0, axis=1)
        logits = tl.where(is_row[:, None], logits + shift[None, :], 0.0)
        best = tl.maximum(best, tl.max(logits, axis=0))
    best += tl.sum(poison, axis=0)
    tl.store(out + text.to(tl.int64) * outputs + outs, best, mask=is_out)


def row_maximum(x: Tensor, weight: Tensor, bias: Tensor, ends: Tensor) -> Tensor:
    """Return the maximum of 0 and x W^T + b over the rows of each text: (T, D) -> (B, V) float32.

    SPLADE's head: Formal et al. 2021, arXiv 2109.10086. weight: (V, D). bias: (V,). ends: (B + 1,)
    int32, the first row of each text and the row after the last. The results of a text are NaN if
    one of its features is not finite.
    """
    texts, (outputs, width) = len(ends) - 1, weight.shape
    out = torch.empty(texts, outputs, dtype=torch.float32, device=x.device)
    exact = x.dtype == torch.float32
    sizes = row_maximum_blocks(exact)
    if texts:
        row_maximum_kernel[(texts, triton.cdiv(outputs, sizes["out_block"]))](
            *(x.contiguous(), weight.contiguous(), bias, ends, out),
            width=width,
            outputs=outputs,
            **sizes,
            num_warps=4 if exact else 8,
        )
    return out


def row_maximum_blocks(exact: bool) -> dict[str, int]:
    """Rows, outputs and features of a step of the kernel. exact: whether it is in float32."""
    rows, outputs, inner = (32, 64, 32) if exact else (64, 128, 64)
    return {"row_block": rows, "out_block": outputs, "inner_block": inner}


class GpuLinearFactory(TorchLinearFactory):
    """Factory of layers whose activation is part of a matrix product or of one Triton kernel.

    GELU within a product has its tanh form, whose vectors have a cosine of 1 - 2e-6 to the exact
    form: less than half precision loses.
    """

    def __call__(
        self, weight: Tensor, bias: Tensor, activation: str = "none", *, name: str = ""
    ) -> Linear:
        if activation not in _USE_GELU:
            return super().__call__(weight, bias, activation, name=name)
        return _ProductWithActivation(*self._parts(weight, bias), _USE_GELU[activation])

    def gated(
        self, gate: WeightAndBias, up: WeightAndBias, activation: str, *, name: str = ""
    ) -> Linear:
        weight, bias = (torch.cat(parts) for parts in zip(gate, up, strict=True))
        return _GatedProduct(*self._parts(weight, bias), activation)

    def row_maximum(self, weight: Tensor, bias: Tensor, *, name: str = "") -> RowMaximum:
        return _PackedRowMaximum(*self._parts(weight, bias))

    def _parts(self, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        return weight.to(self.device, self.dtype), bias.to(self.device, self.dtype)


class _ProductWithActivation:
    def __init__(self, weight: Tensor, bias: Tensor, use_gelu: bool) -> None:
        self._weight, self._bias, self._use_gelu = weight, bias, use_gelu

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        y: Tensor = torch.ops.aten._addmm_activation(
            self._bias, x, self._weight.T, use_gelu=self._use_gelu
        )
        return y if residual is None else y + residual


class _GatedProduct:
    def __init__(self, weight: Tensor, bias: Tensor, activation: str) -> None:
        self._weight, self._bias, self._activation = weight, bias, activation

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        y = gated(F.linear(x, self._weight, self._bias), self._activation)
        return y if residual is None else y + residual


class _PackedRowMaximum:
    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        self._weight, self._bias = weight, bias

    def __call__(self, x: Tensor, layout: SequenceLayout) -> Tensor:
        ends = layout.cu_seqlens[: len(layout.host_lengths) + 1]
        return row_maximum(x, self._weight, self._bias, ends)
