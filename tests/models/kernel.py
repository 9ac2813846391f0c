"""A kernel for packed sequences as torch has one for GPUs, written plainly for any device."""

from itertools import pairwise

import torch
from torch import Tensor

from embedwell_models.torch_backend.attention import AttentionFunction, AttentionOptions
from embedwell_models.torch_backend.operators import FlashAttention


def kernel(  # noqa: PLR0913, PLR0917 - the arguments of torch's operator, those of torch 2.11 alone
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cu_seqlens: Tensor,
    cu_seqlens_k: Tensor,
    max_queries: int,
    max_keys: int,
    *,
    dropout_p: float,
    is_causal: bool,
    return_debug_mask: bool,
    scale: float,
    window_size_left: int,
    window_size_right: int,
) -> tuple[Tensor]:
    """Attend: (T, H, Dh) -> (T, H, Dh); refuses what torch's kernel refuses."""
    window = window_size_left, window_size_right
    assert dropout_p == 0 and not return_debug_mask
    assert is_causal == (window == (-1, 0))
    assert query.shape[1] % key.shape[1] == 0
    assert cu_seqlens is cu_seqlens_k
    assert cu_seqlens.dtype == torch.int32 and cu_seqlens.is_contiguous()
    assert max_keys >= max_queries >= int(cu_seqlens.diff().max()) and max_queries > 1
    assert max_keys > max(window)
    shared = query.shape[1] // key.shape[1]
    # Rows of no sequence hold what was in the memory before.
    mixed = torch.full_like(query, float("nan"))
    for start, stop in pairwise(cu_seqlens.tolist()):
        text = (part[start:stop].transpose(0, 1) for part in (query, key, value))
        q, k, v = text
        k, v = (part.repeat_interleave(shared, dim=0) for part in (k, v))
        places = torch.arange(stop - start)
        gaps = places - places[:, None]
        before, after = (stop if side < 0 else side for side in window)
        scores = (q @ k.mT * scale).masked_fill((gaps < -before) | (gaps > after), -1e30)
        mixed[start:stop] = (scores.softmax(dim=-1) @ v).transpose(0, 1)
    return (mixed,)


def by_kernel(options: AttentionOptions, head_size: int, dtype: torch.dtype) -> AttentionFunction:
    """Attention as on a GPU, for layers on any device."""
    assert options.positions.adds_no_scores and not options.softcap
    return FlashAttention(kernel)
