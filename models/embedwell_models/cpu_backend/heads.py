"""SPLADE's head over the states of tokens, on linear layers of the kernels.

B sequences, T tokens, D hidden size, E size of an embedding, V vocabulary.
"""

from collections.abc import Sequence

import numpy as np

from embedwell_models.cpu_backend.linear import KernelLinearFactory
from embedwell_models.encoder.encoder import layer_norm
from embedwell_models.encoder.splade import MaskedLMWeights
from embedwell_models.model_files.sparse import Splade
from embedwell_models.vectors import Floats

_LOGIT_ROWS = 64  # tokens whose logits are in memory at once if they are summed


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
