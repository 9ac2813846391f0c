"""Rotary positions: the rotation of pairs of features of queries and keys.

T tokens, H heads, Dh head size.
"""

from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from embedwell_models.positions import schemes, tables
from embedwell_models.torch_backend.norm import HeadNorms
from embedwell_models.torch_backend.position_hooks import PositionHooks
from embedwell_models.torch_backend.sequence_layout import SequenceLayout
from embedwell_models.torch_backend.tensors import to_device

_SHORTEST_TABLE = 512  # positions of the first table of rotations


class RotatePairs(Protocol):
    """Rotate the first features of heads (T, H, Dh), maybe in place.

    cos, sin: (T, rotated features / 2). interleaved: whether pairs are the columns (2i, 2i + 1);
    otherwise they are a half of the rotated features apart. norms: of the heads, computed first;
    given only where Operators.norms_heads.
    """

    def __call__(
        self,
        heads: Tensor,
        cos: Tensor,
        sin: Tensor,
        *,
        interleaved: bool,
        norms: HeadNorms | None = None,
    ) -> Tensor: ...


def rotate_pairs(
    heads: Tensor,
    cos: Tensor,
    sin: Tensor,
    *,
    interleaved: bool,
    norms: HeadNorms | None = None,
) -> Tensor:
    """Rotate pairs on any device, see RotatePairs."""
    assert norms is None
    dim, cos, sin = 2 * cos.shape[1], cos[:, None], sin[:, None]
    rotated, rest = heads[..., :dim], heads[..., dim:]
    if interleaved:
        a, b = rotated[..., 0::2], rotated[..., 1::2]
        pairs = torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1).flatten(-2)
    else:
        a, b = rotated.chunk(2, dim=-1)
        pairs = torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)
    return torch.cat([pairs, rest], dim=-1) if rest.shape[-1] else pairs


class Rotary(PositionHooks):
    """Rotation of pairs of features (Su et al. 2021, arXiv 2104.09864)."""

    def __init__(self, scheme: schemes.Rotary, rotate_pairs: RotatePairs = rotate_pairs) -> None:
        self.cache_key = self.scheme = scheme
        self.longest_recordable = tables.longest_unscaled(scheme)
        self._rotate_pairs = rotate_pairs
        # Of several lengths; none is released, because recorded passes read it at its address.
        self._tables: dict[tuple[int, torch.dtype, torch.device], Tensor] = {}

    def rotate(
        self, heads: Tensor, layout: SequenceLayout, norms: HeadNorms | None = None
    ) -> Tensor:
        key = (self.scheme, heads.dtype)
        cos, sin = layout.cached(key, lambda each: self._cos_sin(each, heads.dtype).unbind())
        interleaved = self.scheme.interleaved
        return self._rotate_pairs(heads, cos, sin, interleaved=interleaved, norms=norms)

    def _cos_sin(self, layout: SequenceLayout, dtype: torch.dtype) -> Tensor:
        # (2, T, dim / 2)
        longest, device = layout.shape.max_length, layout.positions.device
        if longest > self.longest_recordable:
            return self._cos_sin_of_lengths(layout).to(dtype)
        key = (max(_SHORTEST_TABLE, 1 << (longest - 1).bit_length()), dtype, device)
        if key not in self._tables:
            radians = torch.from_numpy(tables.radians(np.arange(key[0]), self.scheme))
            table = _scaled_cos_sin(self.scheme, radians)
            self._tables[key] = table.to(dtype).to(device)
        return self._tables[key].index_select(1, layout.positions)

    def _cos_sin_of_lengths(self, layout: SequenceLayout) -> Tensor:
        # Each text has frequencies of its own length.
        lengths = tables.scaled_lengths(self.scheme, np.array(layout.host_lengths))
        distinct, index = np.unique(lengths, return_inverse=True)
        rows = np.stack([tables.frequencies(self.scheme, length) for length in distinct.tolist()])
        (flat,) = to_device(layout.positions.device, torch.from_numpy(rows[index]).flatten())
        frequencies = flat.view(len(index), -1)
        of_tokens = frequencies.repeat_interleave(layout.lengths, 0, output_size=layout.tokens)
        angles = frequencies.new_zeros(layout.rows, frequencies.shape[1])
        angles[: layout.tokens] = of_tokens * layout.positions[: layout.tokens, None]
        return _scaled_cos_sin(self.scheme, angles)


def set_angles(
    layout: SequenceLayout, scheme: schemes.Rotary, angles: Tensor, dtype: torch.dtype
) -> None:
    """Let `Rotary` rotate by these angles (rows, dim / 2), not by the positions.

    dtype: type of queries and keys.
    """
    cos_sin = _scaled_cos_sin(scheme, angles).to(dtype)
    layout.cached((scheme, dtype), lambda _: cos_sin.unbind())


def _scaled_cos_sin(scheme: schemes.Rotary, angles: Tensor) -> Tensor:
    return torch.stack([angles.cos(), angles.sin()]) * scheme.scaling.magnitude
