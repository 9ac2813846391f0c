"""Pooling of the hidden states of each text, or of an image's patches, to one vector, on a CPU.

B texts, N pooled tokens of a text, T tokens or patches, D hidden size, H heads, Dh head size.
"""

from collections.abc import Callable, Sequence

import numpy as np

from embedwell_models.checkpoint.weights import Weights
from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.encoder.batch import Batch, Integers
from embedwell_models.encoder.layers import Linear, LinearFactory, layer_norm
from embedwell_models.vectors import Floats

Pooling = Callable[[Floats, int], Floats]
"""Function that pools the states of one text: (N, D) -> (D,).

Its second argument is the number of tokens before these that are not pooled.
"""


def cls(states: Floats, before: int) -> Floats:
    """Return the first token's state: (N, D) -> (D,)."""
    first: Floats = states[0]
    return first


def last(states: Floats, before: int) -> Floats:
    """Return the last token's state: (N, D) -> (D,)."""
    final: Floats = states[-1]
    return final


def mean(states: Floats, before: int) -> Floats:
    """Return the average over tokens: (N, D) -> (D,)."""
    average: Floats = states.sum(axis=0) / np.float32(len(states))
    return average


def maximum(states: Floats, before: int) -> Floats:
    """Return the largest value in each dimension: (N, D) -> (D,)."""
    largest: Floats = states.max(axis=0)
    return largest


def mean_sqrt(states: Floats, before: int) -> Floats:
    """Return the sum over tokens / the square root of their number: (N, D) -> (D,)."""
    scaled: Floats = mean(states, before) * np.sqrt(np.float32(len(states)))
    return scaled


def weighted_mean(states: Floats, before: int) -> Floats:
    """Return the average weighted by position, from 1 (arXiv 2202.08904): (N, D) -> (D,)."""
    positions = np.arange(before + 1, before + 1 + len(states))
    products = states * positions[:, None].astype(np.float32)
    weighted: Floats = products.sum(axis=0) / np.float32(positions.sum())
    return weighted


POOLINGS: dict[str, Pooling] = {  # the order of Pooling in kernels/pool.h
    "cls": cls,
    "max": maximum,
    "mean": mean,
    "mean_sqrt_len_tokens": mean_sqrt,
    "weightedmean": weighted_mean,
    "lasttoken": last,
}


def pool_batch(states: Floats, batch: Batch, modes: Sequence[str]) -> Floats:
    """Concatenate several poolings of each text: (T, D) -> (B, D * modes).

    The first `batch.prompt_token_counts` tokens of each text are left out.
    """
    return pool_rows(states, batch.lengths, modes, batch.prompt_token_counts)


def pool_rows(
    states: Floats, lengths: Integers, modes: Sequence[str], prompt_counts: Integers | None = None
) -> Floats:
    """Concatenate several poolings of rows: (rows, D) -> (B, D * modes).

    lengths: (B,) number of rows of each text. prompt_counts: (B,) number of first rows that are
    left out; None for none. A text without remaining rows has the zero vector.
    """
    pooled = np.zeros((len(lengths), len(modes), states.shape[1]), dtype=np.float32)
    left_out = [0] * len(lengths) if prompt_counts is None else prompt_counts.tolist()
    stops = lengths.cumsum().tolist()
    starts = [0, *stops[:-1]]
    for index, (start, before, stop) in enumerate(zip(starts, left_out, stops, strict=True)):
        if start + before < stop:
            rows = states[start + before : stop]
            pooled[index] = [POOLINGS[mode](rows, before) for mode in modes]
    return pooled.reshape(len(pooled), -1)


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
        scores = self._scores @ states.T
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)  # (H, T)
        mixed = (self._values @ (weights @ states)[:, :, None]).reshape(1, -1)  # (1, D)
        pooled = self._output(mixed + self._value_bias)
        normed = layer_norm(pooled, *self._norm)
        hidden = self._up(normed)
        if self._gate is not None:
            hidden = hidden * self._gate(normed)
        residual = states[:1] if self._adds_class_token else pooled
        vector: Floats = (residual + self._down(hidden))[0]
        return vector
