"""Biases of attention scores by distance. H heads, L layers."""

from collections.abc import Callable

import numpy as np

from embedwell_models.checkpoint.weights import Weights
from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.cpu_backend.prepack import PANEL
from embedwell_models.positions import tables
from embedwell_models.positions.schemes import Alibi, Buckets, TransformerXL
from embedwell_models.vectors import Floats

PositionBias = Callable[[int], Floats]
"""Function that returns the bias of each distance, key minus query: (H, 2 * length - 1).

Its argument is the length; the distances are 1 - length to length - 1. If layers do not share their
biases, the heads of each layer follow those of the layer before it: (L * H, 2 * length - 1).
"""


def position_bias(config: EncoderConfig, weights: Weights) -> PositionBias | None:
    """Return the bias of a model's attention; None if its scheme adds no bias to the scores."""
    attention = config.attention
    match scheme := attention.positions:
        case Alibi():  # Press et al. 2021, arXiv 2108.12409
            slopes = tables.alibi_slopes(attention.heads, scheme.steepest)
            return lambda length: -slopes[:, None] * np.abs(_distances(length))
        case Buckets():  # Raffel et al. 2020, arXiv 1910.10683
            table, limits = _table(config, weights), (scheme.buckets, scheme.max_distance)
            return lambda length: table[tables.t5_buckets(_distances(length), *limits)].T
    return None


def first_bias(config: EncoderConfig, index: int) -> int:
    """Return the row of the first head of the layer with this index."""
    match config.attention.positions:
        case Buckets(shared=False) | TransformerXL():
            return index * config.attention.heads
    return 0


def flat(biases: Floats) -> Floats:
    """Return biases (rows, distances) as the kernels read them, in float32.

    They read whole vector registers, so the last read may go past the end.
    """
    return np.pad(biases.astype(np.float32).flatten(), (0, PANEL))


def _table(config: EncoderConfig, weights: Weights) -> Floats:
    if "bias_table" in weights:
        return weights["bias_table"]
    names = (f"layers.{layer.weights}.layer_bias_table" for layer in config.layers)
    return np.concatenate([weights[name] for name in names], axis=1)


def _distances(length: int) -> tables.Ints:
    return np.arange(1 - length, length)
