"""Attention over packed sequences: no token sees another text, and no text sees its batch."""

import torch
import torch.nn.functional as F
from torch import Tensor

from models.packing import Packing
from models.positions import Positions


def attend(qkv: Tensor, packing: Packing, positions: Positions) -> Tensor:
    """softmax(q k^T / sqrt(Dh) + bias) v within each sequence: (T, 3, H, Dh) -> (T, H * Dh).

    Sequences of similar length share one call. A sequence is padded by its own length alone and
    always masked, so its result is the same bits in every batch.
    """
    rows, _, heads, size = qkv.shape
    mixed = qkv.new_zeros(rows, heads * size)
    for group in packing.groups:
        block = qkv.index_select(0, group.rows).view(group.count, group.length, 3, heads, size)
        query, key, value = block.permute(2, 0, 3, 1, 4)
        mask = _mask(group.mask, positions, group.length)
        out = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        flat = out.transpose(1, 2).reshape(-1, heads * size)
        mixed.index_copy_(0, group.targets, flat.index_select(0, group.slots))
    return mixed


def _mask(mask: Tensor, positions: Positions, length: int) -> Tensor:
    bias = positions.bias(length)
    step = torch.arange(length, device=mask.device)
    distances = step - step[:, None]
    if bias is not None:
        mask = mask + bias[:, distances + length - 1].to(mask.dtype)
    return mask.masked_fill(distances > 0, float("-inf")) if positions.causal else mask
