"""Attention to trained latents: its options, its weights, and its results on arrays.

NV-Embed: Lee et al. 2024, arXiv 2405.17428. T tokens, D width, N latents, H heads, Dh head size.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from embedwell_models.checkpoint import weights
from embedwell_models.checkpoint.weights import Weights
from embedwell_models.config.model_spec import StateLayersSpec
from embedwell_models.encoder.encoder import Encoder, LinearFactory, WeightAndBias, layer_norm
from embedwell_models.encoder.encoders_with_heads import StateFunctionEncoder
from embedwell_models.vectors import Floats

NORM_EPS = 1e-5
"""Epsilon of all norms."""
FEATURE_ROWS = 512
"""Number of tokens whose inner features are in memory at once."""

_ATTENTION, _FFN = "cross_attend_blocks.0", "cross_attend_blocks.1"


@dataclass(frozen=True, kw_only=True)
class LatentSpec(StateLayersSpec):
    """Attention of the last hidden states to trained vectors, followed by a feed-forward network.

    prefix: prefix of the tensors' names. width: size of a hidden state. count: number of trained
    vectors. heads, head_size: sizes of the attention. inner: features of the feed-forward network.
    """

    in_kernels: ClassVar = "embedwell_rare.latent_attention:load"
    on_torch: ClassVar = "embedwell_rare.torch_layers.latent_attention:load"
    prefix: str
    width: int
    count: int
    heads: int
    head_size: int
    inner: int

    @property
    def size(self) -> int:
        """Number of parameters in the computed matrices, see LatentWeights."""
        return self.width * (2 * self.heads * self.count + 3 * self.inner)


@dataclass(frozen=True)
class LatentWeights:
    """Matrices (out, in) and norms, each a pair of weight and bias.

    scores: (H N, D) maps a state to the score of each latent in each head. values: (D, H N) maps
    attention weights to the sum that is added to the state. gate, up: (inner, D). down: (D, inner).
    """

    heads: int
    attention_norm: WeightAndBias
    scores: Floats
    values: Floats
    ffn_norm: WeightAndBias
    gate: WeightAndBias
    up: WeightAndBias
    down: WeightAndBias


def load_latent_weights(folder: Path, spec: LatentSpec) -> LatentWeights:
    """Read the arrays as float32; raises ModelError for a missing tensor or a wrong shape.

    The latents, their keys and their values are the same for every token. The products with the
    query and output matrices are therefore computed once.
    """
    arrays = weights.read_others(
        folder, _shapes(spec), lambda name: name.startswith(spec.prefix), spec.prefix
    )
    scores, values = _multiply_out(arrays, spec)
    (up, gate), (up_bias, gate_bias) = (
        np.split(array, 2) for array in _pair(arrays, f"{_FFN}.fn.net.0")
    )
    return LatentWeights(
        heads=spec.heads,
        attention_norm=_pair(arrays, f"{_ATTENTION}.norm"),
        scores=scores,
        values=values,
        ffn_norm=_pair(arrays, f"{_FFN}.norm"),
        gate=(gate, gate_bias),
        up=(up, up_bias),
        down=_pair(arrays, f"{_FFN}.fn.net.2"),
    )


class LatentAttention:
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
            states[start : start + FEATURE_ROWS] for start in range(0, len(states), FEATURE_ROWS)
        )
        with np.errstate(all="ignore"):  # a state that is not finite stays so, without a warning
            return np.concatenate([self._apply(part) for part in parts])

    def _apply(self, x: Floats) -> Floats:
        scores = self._scores(layer_norm(x, *self._attention_norm, NORM_EPS))
        attention = _softmax(scores.reshape(len(x), self._heads, -1))
        x = self._values(attention.reshape(len(x), -1), x)
        normed = layer_norm(x, *self._ffn_norm, NORM_EPS)
        return self._down(self._gate(normed) * self._up(normed), x)


def load(folder: Path, spec: LatentSpec) -> Callable[[Encoder, LinearFactory, int], Encoder]:
    """Load the attention on arrays; for the errors see `load_latent_weights`."""
    weights = load_latent_weights(folder, spec)

    def add(encoder: Encoder, linear: LinearFactory, num_layers: int) -> Encoder:
        return StateFunctionEncoder(encoder, LatentAttention(weights, linear), num_layers)

    return add


def _shapes(spec: LatentSpec) -> Mapping[str, tuple[int, ...]]:
    width, features = spec.width, spec.heads * spec.head_size
    norms = (f"{_ATTENTION}.norm", f"{_ATTENTION}.norm_context", f"{_FFN}.norm")
    return {
        "latents": (spec.count, width),
        **{f"{norm}.{part}": (width,) for norm in norms for part in ("weight", "bias")},
        f"{_ATTENTION}.fn.to_q.weight": (features, width),
        f"{_ATTENTION}.fn.to_kv.weight": (2 * features, width),
        f"{_ATTENTION}.fn.to_out.weight": (width, features),
        f"{_FFN}.fn.net.0.weight": (2 * spec.inner, width),
        f"{_FFN}.fn.net.0.bias": (2 * spec.inner,),
        f"{_FFN}.fn.net.2.weight": (width, spec.inner),
        f"{_FFN}.fn.net.2.bias": (width,),
    }


def _pair(arrays: Weights, name: str) -> WeightAndBias:
    return arrays[f"{name}.weight"], arrays[f"{name}.bias"]


def _multiply_out(arrays: Weights, spec: LatentSpec) -> tuple[Floats, Floats]:
    """Return the matrices `scores` and `values`.

    A head has the matrices Q, K, V (Dh, D) and O (D, Dh). For a state x, the scores of the normed
    latents L (N, D) are L K^T Q x / sqrt(Dh). Attention weights p add O V L^T p to the state.
    """
    context = _pair(arrays, f"{_ATTENTION}.norm_context")
    latents = layer_norm(arrays["latents"], *context, NORM_EPS).astype(np.float64)
    names = ("to_q", "to_kv", "to_out")
    query, both, output = (arrays[f"{_ATTENTION}.fn.{name}.weight"] for name in names)
    key, value = np.split(both, 2)
    scores, values = [], []
    # In float64, one head at a time to save memory.
    for start in range(0, spec.heads * spec.head_size, spec.head_size):
        head = slice(start, start + spec.head_size)
        q, k, v = (matrix[head].astype(np.float64) for matrix in (query, key, value))
        o = output[:, head].astype(np.float64)
        scores.append((latents @ k.T @ q / spec.head_size**0.5).astype(np.float32))
        values.append((o @ (v @ latents.T)).astype(np.float32))
    return np.concatenate(scores), np.concatenate(values, axis=1)


def _softmax(scores: Floats) -> Floats:
    # (T, H, N) -> (T, H, N)
    powers: Floats = np.exp(scores - scores.max(axis=-1, keepdims=True))
    powers /= powers.sum(axis=-1, keepdims=True)
    return powers
