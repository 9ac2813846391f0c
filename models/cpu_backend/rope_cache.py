"""Rotary position tables for the kernels, which read the features of a pair side by side."""

import numpy as np
import torch
from torch import Tensor

from models.positions import tables
from models.positions.schemes import Rotary, Scheme

_MIN_POSITIONS = 512


def paired_order(scheme: Scheme, head_size: int) -> Tensor:
    """Return an order of a head's features in which rotated pairs are adjacent: (Dh,)."""
    order = torch.arange(head_size)
    if not isinstance(scheme, Rotary) or scheme.interleaved:
        return order
    return torch.cat([order[: scheme.dim].view(2, -1).T.flatten(), order[scheme.dim :]])


class RopeCache:
    """Cosines and sines of a scheme, up to the longest text so far."""

    def __init__(self, scheme: Rotary, head_size: int) -> None:
        self._scheme, self._head_size = scheme, head_size
        self._tables = torch.empty(2, 0, head_size)

    def tables(self, length: int) -> Tensor:
        """Return cosines, and sines negated for the first of a pair: (2, P, Dh), P >= length."""
        cached = self._tables  # read once: another thread may replace it
        if cached.shape[1] < length:
            cached = self._tables = self._compute(
                max(_MIN_POSITIONS, 1 << (length - 1).bit_length())
            )
        return cached

    def _compute(self, rows: int) -> Tensor:
        dim = self._scheme.dim
        cos, sin = map(torch.from_numpy, tables.rotary(np.arange(rows), self._scheme))
        result = torch.zeros(2, rows, self._head_size)
        result[0] = 1.0  # features that are not rotated
        result[0, :, :dim] = cos.repeat_interleave(2, dim=1)
        result[1, :, :dim] = torch.stack([-sin, sin], dim=2).flatten(1)
        return result
