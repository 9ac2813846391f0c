"""Operators of layers that a GPU computes in one kernel each."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch

from embedwell_models.torch_backend.attention import AttentionFunction, AttentionOptions
from embedwell_models.torch_backend.device import is_ampere_or_newer, why_no_triton
from embedwell_models.torch_backend.gpu_attention import fastest_attention
from embedwell_models.torch_backend.norm import SumAndNorm, sum_and_norm
from embedwell_models.torch_backend.position_hooks import RotatePairs, rotate_pairs

ChooseAttention = Callable[[AttentionOptions, int, torch.dtype], AttentionFunction]
"""Function that chooses a layer's attention by its options, head size and dtype."""


@dataclass(frozen=True)
class Operators:
    """Operators of layers, by default the sum, norm and rotation of torch for any device.

    kernels: triton, or why they are torch's.
    """

    attention: ChooseAttention
    sum_and_norm: SumAndNorm = sum_and_norm
    rotate_pairs: RotatePairs = rotate_pairs
    kernels: str = "torch"


def operators_for(device: torch.device) -> Operators:
    """Return the operators for a device."""
    why = why_no_triton(device)
    attention = partial(fastest_attention, has_flash=is_ampere_or_newer(device), has_triton=not why)
    return Operators(attention, kernels=f"torch ({why})") if why else triton_operators(attention)


def triton_operators(attention: ChooseAttention) -> Operators:
    """Return the operators in Triton's kernels."""
    from embedwell_models.torch_backend.triton_kernels import norm, rotary

    return Operators(attention, norm.sum_and_norm, rotary.rotate_in_place, "triton")
