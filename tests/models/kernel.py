"""A kernel for packed sequences as torch has one for GPUs, written plainly for any device."""

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from embedwell_models.torch_backend.attention import AttentionFunction, AttentionOptions
from embedwell_models.torch_backend.flash_attention import FlashAttention


def kernel(*args: Any, scale: float, window_size: tuple[int, int], enable_gqa: bool) -> Tensor:
    """Attend: (T, H, Dh) -> (T, H, Dh); refuses what torch's kernel refuses."""
    query, key, value, cu_seqlens, cu_seqlens_k, max_queries, max_keys = args
    assert cu_seqlens is cu_seqlens_k
    assert cu_seqlens.dtype == torch.int32 and cu_seqlens.is_contiguous()
    assert max_keys >= max_queries >= int(cu_seqlens.diff().max()) and max_queries > 1
    assert max_keys > max(window_size)
    assert enable_gqa == (query.shape[1] != key.shape[1])
    shared = query.shape[1] // key.shape[1]
    # Rows of no sequence hold what was in the memory before.
    mixed = torch.full_like(query, float("nan"))
    for start, stop in pairwise(cu_seqlens.tolist()):
        text = (part[start:stop].transpose(0, 1) for part in (query, key, value))
        q, k, v = text
        k, v = (part.repeat_interleave(shared, dim=0) for part in (k, v))
        places = torch.arange(stop - start)
        gaps = places - places[:, None]
        before, after = (stop if side < 0 else side for side in window_size)
        scores = (q @ k.mT * scale).masked_fill((gaps < -before) | (gaps > after), -1e30)
        mixed[start:stop] = (scores.softmax(dim=-1) @ v).transpose(0, 1)
    return mixed


def by_kernel(
    options: AttentionOptions, head_size: int, dtype: torch.dtype, device: torch.device
) -> AttentionFunction:
    """Attention as on a GPU, for layers on any device."""
    assert options.positions.adds_no_scores and not options.softcap
    return FlashAttention(kernel)
