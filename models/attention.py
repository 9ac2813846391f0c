"""Attention over packed sequences: no token sees another text, and no text sees its batch."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from models import native
from models.packing import Packing
from models.positions import Positions

Attend = Callable[[Tensor, Packing, Positions], Tensor]
"""softmax(q k^T / sqrt(Dh) + bias) v within each sequence: (T, 3, H, Dh) -> (T, H * Dh)."""


def attend(qkv: Tensor, packing: Packing, positions: Positions) -> Tensor:
    """Attend with torch alone, on any device.

    Sequences of similar length share one call. A sequence is padded by its own length alone and
    always masked, so its result is the same bits in every batch.
    """
    rows, _, heads, size = qkv.shape
    mixed = qkv.new_zeros(rows, heads * size)
    for group in packing.groups:
        block = qkv.index_select(0, group.rows).view(group.count, group.length, 3, heads, size)
        query, key, value = block.permute(2, 0, 3, 1, 4)
        mask = _mask(group.mask, positions.bias(group.length))
        out = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        flat = out.transpose(1, 2).reshape(-1, heads * size)
        mixed.index_copy_(0, group.targets, flat.index_select(0, group.slots))
    return mixed


def choose(device: torch.device, dtype: torch.dtype, head_size: int, biased: bool) -> Attend:
    """The fastest attention for a device: compiled where it can be, else torch's."""
    fits = device.type == "cpu" and dtype in native.NAMES and head_size % 16 == 0 and not biased
    function = native.load(dtype) if fits else None
    return attend if function is None else _compiled(function)


def _compiled(function: Callable[..., None]) -> Attend:
    def attend(qkv: Tensor, packing: Packing, positions: Positions) -> Tensor:
        rows, _, heads, size = qkv.shape
        mixed = qkv.new_empty(rows, heads * size)
        mixed[packing.tokens :] = 0
        tensors = (qkv.contiguous(), mixed, packing.starts, packing.lengths)
        function(*(tensor.data_ptr() for tensor in tensors), len(packing.lengths), heads, size)
        return mixed

    return attend


def _mask(mask: Tensor, bias: Tensor | None) -> Tensor:
    return mask if bias is None else mask + bias.to(mask.dtype)
