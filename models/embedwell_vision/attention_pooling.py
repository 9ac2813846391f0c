"""Pooling of the states of an image's patches to one vector by attention, on a CPU.

T patches, D hidden size, H heads, Dh head size.
"""

import numpy as np

from embedwell_models.checkpoint.weights import Weights
from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.encoder.encoder import Linear, LinearFactory, layer_norm
from embedwell_models.vectors import MAX_UNTHREADED_PRODUCT, Floats


class AttentionPooling:
    """Attention of one trained query over the states of an image, then a feed-forward network.

    SigLIP (Zhai et al. 2022, arXiv 2106.04560), Nomic. The query is the same for every image, so
    its product with the key matrix is computed once: the score of a patch in a head is a dot
    product with D numbers. The bias of the keys adds the same number to all scores of a head, so
    the softmax cancels it.
    """

    def __init__(
        self,
        config: EncoderConfig,
        weights: Weights,
        linear: LinearFactory,
        *,
        adds_class_token: bool = False,
    ) -> None:
        """adds_class_token: whether the network's output is added to the state of the first token.

        Otherwise it is added to the pooled state.
        """
        heads, size = config.attention.heads, config.attention.head_size

        def build(name: str, activation: str = "none") -> Linear:
            weight, bias = (weights[f"pool.{name}.{part}"] for part in ("weight", "bias"))
            return linear(weight, bias, activation)

        query = weights["pool.query.weight"] @ weights["pool.probe"].reshape(-1)
        query = (query + weights["pool.query.bias"]).reshape(heads, 1, size)
        keys = weights["pool.key.weight"].reshape(heads, size, -1)
        self._scores = (query @ keys)[:, 0] * np.float32(config.attention.scale)  # (H, D)
        self._values = weights["pool.value.weight"].reshape(heads, size, -1)  # (H, Dh, D)
        self._value_bias = weights["pool.value.bias"]
        self._output = build("output")
        self._norm = weights["pool.norm.weight"], weights["pool.norm.bias"], config.norm_eps
        activation, self._adds_class_token = config.feed_forward.activation, adds_class_token
        self._gate = build("gate", activation) if config.feed_forward.gated else None
        self._up = build("up", "none" if self._gate else activation)
        self._down = build("down")

    def __call__(self, states: Floats) -> Floats:
        """Pool the states of one image: (T, D) -> (D,)."""
        size = max(1, MAX_UNTHREADED_PRODUCT // self._scores.size)
        blocks = np.split(states, range(size, len(states), size))
        scores = np.concatenate([self._scores @ block.T for block in blocks], axis=1)
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)  # (H, T)
        by_head = np.zeros_like(self._scores)  # (H, D)
        shares = np.split(weights, range(size, len(states), size), axis=1)
        for share, block in zip(shares, blocks, strict=True):
            by_head += share @ block
        mixed = np.vecdot(self._values, by_head[:, None]).reshape(1, -1)  # (1, D)
        pooled = self._output(mixed + self._value_bias)
        normed = layer_norm(pooled, *self._norm)
        hidden = self._up(normed)
        if self._gate is not None:
            hidden = hidden * self._gate(normed)
        residual = states[:1] if self._adds_class_token else pooled
        vector: Floats = (residual + self._down(hidden))[0]
        return vector
