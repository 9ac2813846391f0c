"""A kernel for packed sequences as torch has one for GPUs, written plainly for any device."""

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from models.torch_backend.attention import Attend, Rules
from models.torch_backend.flash_attention import Varlen


def kernel(*given: Any, scale: float, window_size: tuple[int, int], enable_gqa: bool) -> Tensor:
    """(T, H, Dh) -> (T, H, Dh); what the real one refuses is refused here, too."""
    query, key, value, borders, same, longest, furthest = given
    assert borders is same and borders.dtype == torch.int32 and borders.is_contiguous()
    assert furthest >= longest >= int(borders.diff().max()) and longest > 1
    assert furthest > max(window_size)
    assert enable_gqa == (query.shape[1] != key.shape[1])
    shared = query.shape[1] // key.shape[1]
    # Rows of no sequence hold what was in the memory before.
    mixed = torch.full_like(query, float("nan"))
    for start, stop in pairwise(borders.tolist()):
        text = (part[start:stop].transpose(0, 1) for part in (query, key, value))
        asked, names, what = text
        names, what = (part.repeat_interleave(shared, dim=0) for part in (names, what))
        places = torch.arange(stop - start)
        gaps = places - places[:, None]
        before, after = (stop if side < 0 else side for side in window_size)
        scores = (asked @ names.mT * scale).masked_fill((gaps < -before) | (gaps > after), -1e30)
        mixed[start:stop] = (scores.softmax(dim=-1) @ what).transpose(0, 1)
    return mixed


def by_kernel(rules: Rules, head_size: int, dtype: torch.dtype, device: torch.device) -> Attend:
    """Attention as on a GPU, for layers on any device."""
    assert rules.positions.unscored and not rules.softcap
    return Varlen(kernel)
