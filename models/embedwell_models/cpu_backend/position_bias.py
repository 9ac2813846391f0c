"""Biases of attention scores by distance, which all layers share. H heads."""

from collections.abc import Callable

import numpy as np

from embedwell_models.checkpoint.weights import Weights
from embedwell_models.config.layer_spec import AttentionSpec
from embedwell_models.positions import tables
from embedwell_models.positions.schemes import Alibi, Buckets
from embedwell_models.vectors import Floats

PositionBias = Callable[[int], Floats]
"""Function that returns the bias of each distance, key minus query: (H, 2 * length - 1).

Its argument is the length; the distances are 1 - length to length - 1.
"""


def position_bias(attention: AttentionSpec, weights: Weights) -> PositionBias | None:
    """Return the bias of an attention; None if its scheme adds nothing to the scores."""
    match scheme := attention.positions:
        case Alibi():  # Press et al. 2021, arXiv 2108.12409
            slopes = tables.alibi_slopes(attention.heads, scheme.steepest)
            return lambda length: -slopes[:, None] * np.abs(_distances(length))
        case Buckets():  # Raffel et al. 2020, arXiv 1910.10683
            table, limits = weights["bias_table"], (scheme.buckets, scheme.max_distance)
            return lambda length: table[tables.t5_buckets(_distances(length), *limits)].T
    return None


def _distances(length: int) -> tables.Ints:
    return np.arange(1 - length, length)
