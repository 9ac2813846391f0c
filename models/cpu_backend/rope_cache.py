"""Rotary positions as the kernels read them: with the two features of a pair side by side."""

import numpy as np
import torch
from torch import Tensor

from models.positions import tables
from models.positions.schemes import Rotary, Scheme

_SHORTEST = 512  # positions of a table


def pairs(scheme: Scheme, size: int) -> Tensor:
    """The features of a head in an order in which those of a pair are neighbours: (Dh,)."""
    order = torch.arange(size)
    if not isinstance(scheme, Rotary) or scheme.interleaved:
        return order
    return torch.cat([order[: scheme.dim].view(2, -1).T.flatten(), order[scheme.dim :]])


class Turns:
    """Cosines and sines of a scheme, for positions up to those of the longest text so far."""

    def __init__(self, scheme: Rotary, size: int) -> None:
        """size: of a head."""
        self._scheme, self._size = scheme, size
        self._tables = torch.empty(2, 0, size)

    def upto(self, length: int) -> Tensor:
        """Cosines, and sines that are negative for the first of a pair: (2, P, Dh)."""
        found = self._tables
        if found.shape[1] < length:  # another thread may put a shorter one there meanwhile
            found = self._tables = self._made(max(_SHORTEST, 1 << (length - 1).bit_length()))
        return found

    def _made(self, rows: int) -> Tensor:
        dim = self._scheme.dim
        cos, sin = map(torch.from_numpy, tables.rotary(np.arange(rows), self._scheme))
        found = torch.zeros(2, rows, self._size)
        found[0] = 1.0  # features that are not turned
        found[0, :, :dim] = cos.repeat_interleave(2, dim=1)
        found[1, :, :dim] = torch.stack([-sin, sin], dim=2).flatten(1)
        return found
