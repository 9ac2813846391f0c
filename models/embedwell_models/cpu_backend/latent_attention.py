"""Attention of each token's last state to trained latents, on linear layers of the kernels.

NV-Embed: Lee et al. 2024, arXiv 2405.17428. T tokens, D hidden size, H heads, N latents.
"""

import numpy as np

from embedwell_models.encoder.latents import NORM_EPS, LatentWeights
from embedwell_models.encoder.layers import LinearFactory, layer_norm
from embedwell_models.vectors import Floats

_ROWS = 512  # tokens whose inner features are in memory at once


class KernelLatentAttention:
    """Attention to latents, then a gated feed-forward network (GEGLU: arXiv 2002.05202)."""

    def __init__(self, weights: LatentWeights, linear: LinearFactory) -> None:
        """linear: builds the linear layers in a precision."""
        self._heads = weights.heads
        self._attention_norm, self._ffn_norm = weights.attention_norm, weights.ffn_norm
        score_bias, value_bias = (
            np.zeros(len(matrix), np.float32) for matrix in (weights.scores, weights.values)
        )
        self._scores = linear(weights.scores, score_bias, name="latents.scores")
        self._values = linear(weights.values, value_bias, name="latents.values")
        self._gate = linear(*weights.gate, "gelu", name="latents.up")
        self._up = linear(*weights.up, name="latents.up")
        self._down = linear(*weights.down, name="latents.down")

    def __call__(self, states: Floats) -> Floats:
        """Compute the pooled state of each token: (T, D) -> (T, D)."""
        parts = (states[start : start + _ROWS] for start in range(0, len(states), _ROWS))
        with np.errstate(all="ignore"):  # a state that is not finite stays so, without a warning
            return np.concatenate([self._apply(part) for part in parts])

    def _apply(self, x: Floats) -> Floats:
        scores = self._scores(layer_norm(x, *self._attention_norm, NORM_EPS))
        attention = _softmax(scores.reshape(len(x), self._heads, -1))
        x = self._values(attention.reshape(len(x), -1), x)
        normed = layer_norm(x, *self._ffn_norm, NORM_EPS)
        return self._down(self._gate(normed) * self._up(normed), x)


def _softmax(scores: Floats) -> Floats:
    # (T, H, N) -> (T, H, N)
    powers: Floats = np.exp(scores - scores.max(axis=-1, keepdims=True))
    powers /= powers.sum(axis=-1, keepdims=True)
    return powers
