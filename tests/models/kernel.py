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
    window_size_left: int | None,
    window_size_right: int | None,
) -> tuple[Tensor]:
    """Attend: (T, H, Dh) -> (T, H, Dh); refuses what torch's kernel refuses."""
    window = window_size_left, window_size_right
    assert dropout_p == 0 and not return_debug_mask
    assert not (is_causal and any(side is not None for side in window))
    assert all(side is None or side >= 0 for side in window), "ROCm's takes -1 as a window"
    assert query.shape[1] % key.shape[1] == 0
    assert cu_seqlens is cu_seqlens_k
    assert cu_seqlens.dtype == torch.int32 and cu_seqlens.is_contiguous()
    assert max_keys >= max_queries >= int(cu_seqlens.diff().max()) and max_queries > 1
    assert max_keys > max(side or 0 for side in window)
    before, after = window
    return (_by_text(query, key, value, cu_seqlens, before, 0 if is_causal else after, scale),)


def efficient_kernel(  # noqa: PLR0913, PLR0917 - the arguments of torch's operator
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    *,
    dropout_p: float,
    custom_mask_type: int,
    scale: float,
) -> tuple[Tensor]:
    """Attend: (1, T, H, Dh) -> (1, T, H, Dh); refuses what torch's kernel refuses."""
    assert dropout_p == 0 and bias is None
    assert query.ndim == 4 and query.shape == key.shape == value.shape and len(query) == 1
    assert all(part.stride(-1) == 1 for part in (query, key, value))
    assert cu_seqlens_q is cu_seqlens_k and cu_seqlens_q.dtype == torch.int32
    assert max_seqlen_q == max_seqlen_k >= int(cu_seqlens_q.diff().max())
    after = {0: None, 1: 0}[custom_mask_type]
    return (_by_text(query[0], key[0], value[0], cu_seqlens_q, None, after, scale)[None],)


def _by_text(  # noqa: PLR0913, PLR0917
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cu_seqlens: Tensor,
    before: int | None,
    after: int | None,
    scale: float,
) -> Tensor:
    shared = query.shape[1] // key.shape[1]
    # Rows of no sequence hold what was in the memory before.
    mixed = torch.full_like(query, float("nan"))
    for start, stop in pairwise(cu_seqlens.tolist()):
        text = (part[start:stop].transpose(0, 1) for part in (query, key, value))
        q, k, v = text
        k, v = (part.repeat_interleave(shared, dim=0) for part in (k, v))
        places = torch.arange(stop - start)
        gaps = places - places[:, None]
        first, last = (stop if side is None else side for side in (before, after))
        scores = (q @ k.mT * scale).masked_fill((gaps < -first) | (gaps > last), float("-inf"))
        mixed[start:stop] = (scores.softmax(dim=-1) @ v).transpose(0, 1)
    return mixed


def by_kernel(options: AttentionOptions, head_size: int, dtype: torch.dtype) -> AttentionFunction:
    """Attention as on a GPU, for layers on any device."""
    assert options.positions.adds_no_scores and not options.softcap
    return FlashAttention(kernel)
