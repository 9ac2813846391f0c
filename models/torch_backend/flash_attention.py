"""Attention by one kernel that reads where each sequence lies: no padding, no mask. For GPUs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from models.encoder.device import ampere
from models.encoder.sequence_layout import Packing
from models.torch_backend.attention import Attend, Rules, attend

_DTYPES = (torch.bfloat16, torch.float16)

Kernel = Callable[..., Any]
"""That of torch.nn.attention.varlen, or what takes the same arguments."""


@dataclass(frozen=True)
class Varlen:
    """FlashAttention (Dao 2023, arXiv 2307.08691) over packed sequences."""

    kernel: Kernel

    def __call__(
        self, query: Tensor, key: Tensor, value: Tensor, packing: Packing, rules: Rules
    ) -> Tensor:
        """See models.torch_backend.attention.attend."""
        before = -1 if rules.reach is None else rules.reach
        # For sequences of one token the kernel has another way, which may split the keys, so that
        # a text's bits depended on its batch, and which reads no rows beyond the sequences.
        longest = max(packing.shape.longest, 2)
        # Where no sequence is longer than the window it leaves the window out: another way, too.
        furthest = max(longest, before + 1)
        mixed: Tensor = self.kernel(
            *(query, key, value, packing.borders, packing.borders, longest, furthest),
            scale=rules.scale,
            window_size=(before, 0 if rules.causal else before),
            enable_gqa=query.shape[1] != key.shape[1],
        )
        return mixed.flatten(1)


def choose(rules: Rules, head_size: int, dtype: torch.dtype, device: torch.device) -> Attend:
    """The attention of a layer: by one kernel where it computes what the rules say, else blocks."""
    fits = rules.positions.unscored and not rules.softcap
    fits = fits and dtype in _DTYPES and head_size % 8 == 0 and head_size <= 256
    if fits and ampere(device):
        from torch.nn.attention.varlen import varlen_attn  # which loads torch's compiler

        return Varlen(varlen_attn)
    return attend
