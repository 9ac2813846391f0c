"""Vectors of relative positions, for the scores of DeBERTa's attention.

He et al. 2020, arXiv 2006.03654. S buckets on each side, H heads, Dh head size, D model width.
"""

import numpy as np

from embedwell_models.checkpoint.weights import Weights
from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.cpu_backend import abi
from embedwell_models.encoder.layers import LinearFactory, layer_norm
from embedwell_models.positions import tables
from embedwell_models.positions.schemes import Disentangled
from embedwell_models.vectors import Floats

_COLUMNS = 32  # of a product in the kernels, and the distances that they read beyond a text


def padded_buckets(scheme: Disentangled) -> int:
    """Return the number of rows of `relative_rows`: 2 * S + 1, as a multiple of 32."""
    return padded_rows(2 * scheme.span + 1)


def padded_rows(count: int) -> int:
    """Round a number of rows up to a multiple of 32."""
    return -(-count // _COLUMNS) * _COLUMNS


def relative_rows(
    config: EncoderConfig, weights: Weights, layer: str, part: str, linear: LinearFactory
) -> Floats | None:
    """Project the relative positions of a layer: (H, rows, Dh), a row for each bucket.

    part: "key", for the buckets from -S to S of key minus query, or "query", for those of query
    minus key. Zeros follow. None if the model lacks the scores. linear: a factory in float32.
    """
    scheme, heads = config.attention.positions, config.attention.heads
    assert isinstance(scheme, Disentangled)  # see kernels_support
    if not (scheme.content_to_position if part == "key" else scheme.position_to_content):
        return None
    name = f"{layer}.{'' if scheme.shared else 'position_'}{part}"
    weight = weights[f"{name}.weight"]
    bias = weights.get(f"{name}.bias", np.zeros(len(weight), np.float32))
    vectors = linear(weight, bias)(_relative_table(config, weights))  # by query minus key
    buckets = np.arange(-scheme.span, scheme.span + 1) * (-1 if part == "key" else 1)
    rows = vectors[(scheme.span + buckets).clip(0, len(vectors) - 1)]
    rows = np.pad(rows, ((0, padded_buckets(scheme) - len(rows)), (0, 0)))
    return rows.reshape(len(rows), heads, -1).transpose(1, 0, 2)


def _relative_table(config: EncoderConfig, weights: Weights) -> Floats:
    table = weights["relative_table"]
    if "relative_norm.weight" not in weights:
        return table
    norm = weights["relative_norm.weight"], weights["relative_norm.bias"]
    return layer_norm(table, *norm, config.norm_eps)


class Distances:
    """The bucket of each distance within texts of up to a length, counted from 0."""

    def __init__(self, length: int, scheme: Disentangled | None = None) -> None:
        """scheme: None for a bucket for each distance."""
        distances, span = np.arange(-length - _COLUMNS, length + _COLUMNS + 1), length - 1
        if scheme is not None:
            distances = tables.deberta_buckets(distances, scheme.buckets, scheme.max_distance)
            span = scheme.span
        buckets = distances.clip(-span, span) + span
        self._buckets, self._middle = buckets.astype(np.int32), length + _COLUMNS

    @property
    def struct(self) -> abi.Distances:
        """The kernels' struct, which is valid as long as this object lives."""
        return abi.Distances(self._buckets[self._middle :].ctypes.data)
