"""Operators of layers that a GPU computes in one kernel each."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from embedwell_models.torch_backend.attention import AttentionFunction, AttentionOptions
from embedwell_models.torch_backend.device import runs_triton
from embedwell_models.torch_backend.gpu_attention import choose_attention
from embedwell_models.torch_backend.norm import SumAndNorm, sum_and_norm
from embedwell_models.torch_backend.position_hooks import RotatePairs, rotate_pairs

ChooseAttention = Callable[[AttentionOptions, int, torch.dtype, torch.device], AttentionFunction]
"""Function that chooses a layer's attention by its options, head size, dtype and device."""


@dataclass(frozen=True)
class Operators:
    """Operators of layers, by default the sum, norm and rotation of torch for any device."""

    attention: ChooseAttention = choose_attention
    sum_and_norm: SumAndNorm = sum_and_norm
    rotate_pairs: RotatePairs = rotate_pairs


def operators_for(device: torch.device) -> Operators:
    """Return the operators for a device."""
    return triton_operators() if runs_triton(device) else Operators()


def triton_operators() -> Operators:
    """Return the operators in Triton's kernels."""
    from embedwell_models.torch_backend.triton_kernels import norm, rotary

    return Operators(choose_attention, norm.sum_and_norm, rotary.rotate_in_place)
