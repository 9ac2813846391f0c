"""Zeros after the features of each head of attention, which fill whole tiles of the kernels.

Zeros add nothing to scores, and rows of zeros add nothing to results. H heads, Dh head size.
"""

import numpy as np

from embedwell_models.config.layer_spec import AttentionSpec
from embedwell_models.positions.schemes import Rotary, Scheme
from embedwell_models.vectors import Floats

TILE = 32
_LEAST = 64  # smaller heads would be zeros for too large a part


def padded_size(attention: AttentionSpec) -> int:
    """Return the size of a head in the kernels, where it can be padded to a multiple of TILE."""
    size = attention.head_size
    can_pad = type(attention.positions) in (Scheme, Rotary) and not attention.normed_values
    return size + -size % TILE if can_pad and size >= _LEAST else size


def pad_heads(features: Floats, attention: AttentionSpec) -> Floats:
    """Add the zeros to the features of heads: (H * Dh, ...) -> (H * padded Dh, ...)."""
    zeros = padded_size(attention) - attention.head_size
    if not zeros:
        return features
    others = features.shape[1:]
    heads = features.reshape(-1, attention.head_size, *others)
    padded = np.pad(heads, ((0, 0), (0, zeros), *((0, 0) for _ in others)))
    return padded.reshape(-1, *others)
