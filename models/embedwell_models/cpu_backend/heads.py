"""Heads over the states of tokens on linear layers of the kernels: SPLADE, attention to latents.

B sequences, T tokens, D hidden size, E size of an embedding, V vocabulary, H heads, N latents.
"""

from collections.abc import Sequence

import numpy as np

from embedwell_models.cpu_backend.linear import KernelLinearFactory
from embedwell_models.encoder.latents import NORM_EPS, LatentWeights
from embedwell_models.encoder.layers import LinearFactory, layer_norm
from embedwell_models.encoder.splade import MaskedLMWeights
from embedwell_models.model_files.sparse import Splade
from embedwell_models.vectors import Floats

_LOGIT_ROWS = 64  # tokens whose logits are in memory at once if they are summed
_FEATURE_ROWS = 512  # tokens whose inner features are in memory at once


class KernelSpladeHead:
    """Head of a masked language model whose logits are pooled over the tokens of a text.

    SPLADE: Formal et al. 2021, arXiv 2109.10086.
    """

    def __init__(
        self, splade: Splade, weights: MaskedLMWeights, linear: KernelLinearFactory
    ) -> None:
        """linear: builds the linear layers in a precision."""
        self.vocab_size = len(weights.output[1])
        self._splade, self._norm, self._eps = splade, weights.norm, weights.eps
        self._dense = None
        if weights.dense is not None:
            self._dense = linear(*weights.dense, weights.activation, name="masked_lm.dense")
        self._logits = self._maximum = None
        if splade.pooling == "max":
            self._maximum = linear.row_maximum(*weights.output, name="masked_lm.output")
        else:
            self._logits = linear(*weights.output, name="masked_lm.output")

    def __call__(self, states: Floats, lengths: Sequence[int]) -> Floats:
        """Pool the states of B sequences: (T, D) -> (B, V)."""
        with np.errstate(all="ignore"):  # states may be infinite or NaN
            x = self._transform(states)
            texts = np.split(x, np.cumsum(lengths)[:-1])
            if self._maximum is not None:  # log(1 + x) grows with x, so the maximum comes first
                pooled = self._log(self._maximum(x, lengths))
            else:
                pooled = np.stack([self._sum(rows) for rows in texts])
        # The maximum with zero may hide values that are not finite.
        pooled[[not np.isfinite(rows).all() for rows in texts]] = np.nan
        return pooled

    def _transform(self, states: Floats) -> Floats:
        # (tokens, D) -> (tokens, E)
        if self._dense is None or self._norm is None:
            return states
        return layer_norm(self._dense(states), *self._norm, self._eps)

    def _sum(self, rows: Floats) -> Floats:
        # The sum of the weights of one text: (tokens, E) -> (V,).
        assert self._logits is not None
        total = np.zeros(self.vocab_size, np.float32)
        for start in range(0, len(rows), _LOGIT_ROWS):
            logits = self._logits(rows[start : start + _LOGIT_ROWS])
            total += self._log(np.maximum(logits, 0)).sum(axis=0)
        return total

    def _log(self, activations: Floats) -> Floats:
        logs: Floats = np.log1p(activations)
        return np.log1p(logs) if self._splade.log_twice else logs


class KernelLatentAttention:
    """Attention of each token's last state to trained latents, then a gated network.

    NV-Embed: Lee et al. 2024, arXiv 2405.17428. GEGLU: Shazeer 2020, arXiv 2002.05202.
    """

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
        parts = (
            states[start : start + _FEATURE_ROWS] for start in range(0, len(states), _FEATURE_ROWS)
        )
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
