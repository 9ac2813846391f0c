"""Operators of layers that a GPU computes in one kernel each: attention, norms and rotations.

T tokens, H heads, Dh head size. Attention is over packed sequences, without padding and mask.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from embedwell_models.torch_backend.attention import (
    AttentionFunction,
    AttentionOptions,
    Visibility,
    padded_attention,
)
from embedwell_models.torch_backend.attention_trial import attention_works
from embedwell_models.torch_backend.device import has_bfloat16, why_no_triton
from embedwell_models.torch_backend.norm import SumAndNorm, sum_and_norm
from embedwell_models.torch_backend.rotary import RotatePairs, rotate_pairs
from embedwell_models.torch_backend.sequence_layout import SequenceLayout

_DTYPES = (torch.bfloat16, torch.float16)
_LARGEST_HEAD = 256
_NO_MASK, _CAUSAL = 0, 1  # of memory-efficient attention
ChooseAttention = Callable[[AttentionOptions, int, torch.dtype], AttentionFunction]
"""Function that chooses a layer's attention by its options, head size and dtype."""
Works = Callable[[AttentionFunction, AttentionOptions, int, torch.dtype], bool]
"""Function that tries an attention function with a layer's options, head size and dtype."""


@dataclass(frozen=True)
class FlashAttention:
    """FlashAttention (Dao 2023, arXiv 2307.08691) over packed sequences."""

    kernel: Callable[..., Sequence[Tensor]]
    """Operator aten::_flash_attention_forward, or a function with its arguments and results.

    Several query heads may share a key head. torch's public function for it takes such heads only
    from torch 2.12 on.
    """
    limited: AttentionFunction = padded_attention
    """Attention where some tokens are not attended to, as in queries of multi-vector models."""

    def __call__(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        layout: SequenceLayout,
        options: AttentionOptions,
    ) -> Tensor:
        """Compute attention within each sequence: (T, H, Dh) -> (T, H * Dh)."""
        if layout.limits_keys:
            return self.limited(query, key, value, layout, options)
        # None, not -1, for a whole sequence: the kernel of ROCm takes every number as a window.
        window = options.window
        after = 0 if options.causal and window is not None else options.after
        # With a maximum of one token the kernel takes another path. That path may split the keys,
        # so that the bits of a text depend on its batch, and it reads no rows after the sequences.
        max_queries = max(layout.shape.max_length, 2)
        # If no sequence is longer than the window, the kernel also takes another path.
        max_keys = max(max_queries, *(1 + (side or 0) for side in (window, options.after)))
        ends = layout.cu_seqlens
        output = self.kernel(
            *(query, key, value, ends, ends, max_queries, max_keys),
            dropout_p=0.0,
            is_causal=options.causal and window is None,
            return_debug_mask=False,
            scale=options.scale,
            window_size_left=window,
            window_size_right=after,
        )[0]
        return output.flatten(1)


@dataclass(frozen=True)
class EfficientAttention:
    """Memory-efficient attention (Rabe and Staats 2021, arXiv 2112.05682) over packed sequences.

    Also for GPUs before Ampere, such as a T4, and for float32.
    """

    kernel: Callable[..., Sequence[Any]]
    """Operator aten::_efficient_attention_forward, or a function with its arguments and results."""
    limited: AttentionFunction = padded_attention
    """Attention where some tokens are not attended to."""

    def __call__(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        layout: SequenceLayout,
        options: AttentionOptions,
    ) -> Tensor:
        """Compute attention within each sequence: (T, H, Dh) -> (T, H * Dh)."""
        if layout.limits_keys:
            return self.limited(query, key, value, layout, options)
        shared, longest = query.shape[1] // key.shape[1], layout.shape.max_length
        if shared > 1:
            key, value = (part.repeat_interleave(shared, dim=1) for part in (key, value))
        ends = layout.cu_seqlens
        output = self.kernel(
            *(query[None], key[None], value[None], None, ends, ends, longest, longest),
            dropout_p=0.0,
            custom_mask_type=_CAUSAL if options.causal else _NO_MASK,
            scale=options.scale,
        )[0]
        mixed: Tensor = output[0]
        return mixed.flatten(1)


@dataclass(frozen=True)
class PackedAttention:
    """Attention with relative scores, soft caps and windows, without padding and mask."""

    kernel: Callable[..., Tensor]
    """`attend` in `triton_kernels.attention`, or a function with its arguments and result."""

    def __call__(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        layout: SequenceLayout,
        options: AttentionOptions,
    ) -> Tensor:
        """Compute attention within each sequence: (T, H, Dh) -> (T, H * Dh)."""
        counts = layout.key_counts if layout.limits_keys else None
        mixed = self.kernel(
            *(query, key, value, layout.cu_seqlens, layout.shape.max_length),
            *(options.scale, options.softcap),
            Visibility(options.causal, options.window, counts),
            options.positions.packed_scores(query, key),
        )
        return mixed.flatten(1)


def fastest_attention(  # noqa: PLR0913 - four are keyword-only
    options: AttentionOptions,
    head_size: int,
    dtype: torch.dtype,
    *,
    has_flash: bool,
    has_triton: bool,
    has_efficient: bool = False,
    works: Works = lambda *_: True,
) -> AttentionFunction:
    """Return FlashAttention if it supports the options and works, else another kernel, else padded.

    The others are the Triton kernel and memory-efficient attention.
    """
    others: AttentionFunction = padded_attention
    if options.global_first:
        return others
    plain = options.positions.adds_no_scores and not options.softcap and head_size % 8 == 0
    packs = options.positions.has_packed_scores and options.after == options.window
    if has_triton and packs and head_size <= _LARGEST_HEAD:
        from embedwell_models.torch_backend.triton_kernels.attention import attend

        others = PackedAttention(attend)
    if has_flash and plain and dtype in _DTYPES and head_size <= _LARGEST_HEAD:
        flash = FlashAttention(torch.ops.aten._flash_attention_forward, others)
        if works(flash, options, head_size, dtype):
            return flash
    if others is not padded_attention and works(others, options, head_size, dtype):
        return others
    if has_efficient and plain and options.window is None:
        efficient = EfficientAttention(torch.ops.aten._efficient_attention_forward)
        if works(efficient, options, head_size, dtype):
            return efficient
    return padded_attention


@dataclass(frozen=True)
class Operators:
    """Operators of layers, by default the sum, norm and rotation of torch for any device.

    norms_heads: whether a rotation also computes the norms of the heads. kernels: triton, or why
    they are torch's.
    """

    attention: ChooseAttention
    sum_and_norm: SumAndNorm = sum_and_norm
    rotate_pairs: RotatePairs = rotate_pairs
    norms_heads: bool = False
    kernels: str = "torch"


def operators_for(device: torch.device) -> Operators:
    """Return the operators for a device."""
    why = why_no_triton(device)
    attention = partial(
        fastest_attention,
        has_flash=has_bfloat16(device),
        has_triton=not why,
        has_efficient=device.type == "cuda",
        works=partial(attention_works, device),
    )
    return Operators(attention, kernels=f"torch ({why})") if why else triton_operators(attention)


def triton_operators(attention: ChooseAttention) -> Operators:
    """Return the operators in Triton's kernels."""
    from embedwell_models.torch_backend.triton_kernels import norm, rotary

    return Operators(attention, norm.sum_and_norm, rotary.rotate_in_place, True, "triton")
