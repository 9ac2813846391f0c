"""Rotary position tables for the kernels, with the two features of a pair side by side."""

import numpy as np

from embedwell_models.config.encoder_config import UNLIMITED, EncoderConfig
from embedwell_models.config.layer_spec import AttentionSpec
from embedwell_models.cpu_backend.head_padding import padded_size
from embedwell_models.encoder.batch import Batch, Integers
from embedwell_models.positions import tables
from embedwell_models.positions.schemes import Rotary, Scheme
from embedwell_models.vectors import Doubles, Floats

_MIN_POSITIONS = 512


def paired_order(scheme: Scheme, head_size: int) -> Integers:
    """Return an order (Dh,) of a head's features in which rotated pairs are adjacent."""
    order = np.arange(head_size)
    if not isinstance(scheme, Rotary) or scheme.interleaved:
        return order
    pairs = order[: scheme.dim].reshape(2, -1).T.flatten()
    return np.concatenate([pairs, order[scheme.dim :]])


def distinct_rotations(config: EncoderConfig) -> list[tuple[Rotary, int]]:
    """Return each rotary scheme of the layers with the size of its heads in
    the kernels, once, in the order of layers."""
    mixers = (layer.mixer for layer in config.layers)
    attentions = (mixer for mixer in mixers if isinstance(mixer, AttentionSpec))
    pairs = ((each.positions, padded_size(each)) for each in attentions)
    return list(dict.fromkeys((a, b) for a, b in pairs if isinstance(a, Rotary)))


class RopeCache:
    """Cosines and sines of a scheme, computed up to the longest text so far.

    With LongRoPE, rows for texts up to the original length come first, then rows for longer texts.
    """

    def __init__(self, scheme: Rotary, head_size: int) -> None:
        self._scheme, self._head_size = scheme, head_size
        scaling = scheme.scaling
        self._original = scaling.original if scaling.kind == "longrope" else UNLIMITED
        self._tables: Floats = np.empty((2, 0, head_size), dtype=np.float32)

    def rows(self, batch: Batch) -> Integers:
        """Return each token's row in the tables: (T,)."""
        if self._original == UNLIMITED:
            return batch.positions
        first = np.where(batch.lengths > self._original, self._original, 0)
        rows: Integers = batch.positions + first.repeat(batch.lengths)
        return rows

    def tables(self, length: int) -> Floats:
        """Return cosines and sines (2, P, Dh); the sine of a pair's first feature is negated.

        P: a number of rows that suffices for texts of up to `length` tokens.
        """
        cached = self._tables  # read once, because another thread may replace it
        first = self._original if length > self._original else 0
        if cached.shape[1] < first + length:
            rows = max(_MIN_POSITIONS, 1 << (length - 1).bit_length())
            cached = self._tables = self._compute(first, rows)
        return cached

    def _compute(self, first: int, rows: int) -> Floats:
        if not first:
            return self._angles(min(rows, self._original), self._original)
        short = self._angles(first, self._original)
        return np.concatenate([short, self._angles(rows, self._original + 1)], axis=1)

    def _angles(self, rows: int, length: int) -> Floats:
        return self._paired(*tables.rotary(np.arange(rows), self._scheme, length))

    def tables_of(self, angles: Doubles) -> Floats:
        """Return cosines and sines (2, T, Dh) of other angles (T, dim / 2), see `tables`."""
        scale = self._scheme.scaling.magnitude
        cos, sin = ((each * scale).astype(np.float32) for each in (np.cos(angles), np.sin(angles)))
        return self._paired(cos, sin)

    def _paired(self, cos: Floats, sin: Floats) -> Floats:
        rows, dim = len(cos), self._scheme.dim
        result = np.zeros((2, rows, self._head_size), dtype=np.float32)
        result[0] = 1.0  # features that are not rotated
        result[0, :, :dim] = cos.repeat(2, axis=1)
        result[1, :, :dim] = np.stack([-sin, sin], axis=2).reshape(rows, dim)
        return result
