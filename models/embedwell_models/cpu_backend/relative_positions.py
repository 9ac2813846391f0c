"""Scores of attention by the distance of query and key, in the layout of the kernels.

Biases by distance (ALiBi, T5); products with vectors of buckets of distances (DeBERTa: He et al.
2020, arXiv 2006.03654); products with vectors of all distances of a text (XLNet: Dai et al. 2019,
arXiv 1901.02860). L layers, H heads, Dh head size, D model width, R rows, S buckets on each side.
"""

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from embedwell_models.checkpoint.weights import Weights
from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.cpu_backend import abi
from embedwell_models.cpu_backend.prepack import PANEL, Packing, WeightPacker
from embedwell_models.encoder.encoder import Linear, LinearFactory, layer_norm
from embedwell_models.positions import tables
from embedwell_models.positions.schemes import Alibi, Buckets, Disentangled, TransformerXL
from embedwell_models.vectors import Floats

PositionBias = Callable[[int], Floats]
"""Function that returns the bias of each distance, key minus query: (H, 2 * length - 1).

Its argument is the length; the distances are 1 - length to length - 1. If layers do not share their
biases, the heads of each layer follow the heads of the layer before it: (L * H, 2 * length - 1).
"""
_COLUMNS = 32  # of a product in the kernels, and the distances that they read beyond a text
_SHORTEST, _KEPT = 128, 512  # tokens; tables for longer texts take too much memory to be kept


def position_bias(config: EncoderConfig, weights: Weights) -> PositionBias | None:
    """Return the bias of a model's attention; None if its scheme adds no bias to the scores."""
    attention = config.attention
    match scheme := attention.positions:
        case Alibi():  # Press et al. 2021, arXiv 2108.12409
            slopes = tables.alibi_slopes(attention.heads, scheme.steepest)
            return lambda length: -slopes[:, None] * np.abs(_distances(length))
        case Buckets():  # Raffel et al. 2020, arXiv 1910.10683
            table, limits = _bias_table(config, weights), (scheme.buckets, scheme.max_distance)
            return lambda length: table[tables.t5_buckets(_distances(length), *limits)].T
    return None


def first_bias(config: EncoderConfig, index: int) -> int:
    """Return the row of the first head of the layer with this index."""
    match config.attention.positions:
        case Buckets(shared=False) | TransformerXL():
            return index * config.attention.heads
    return 0


def flat_biases(biases: Floats) -> Floats:
    """Return biases (rows, distances) as the kernels read them, in float32.

    They read whole vector registers, so the last read may go past the end.
    """
    return np.pad(biases.astype(np.float32).flatten(), (0, PANEL))


def _bias_table(config: EncoderConfig, weights: Weights) -> Floats:
    if "bias_table" in weights:
        return weights["bias_table"]
    names = (f"layers.{layer.weights}.layer_bias_table" for layer in config.layers)
    return np.concatenate([weights[name] for name in names], axis=1)


def _distances(length: int) -> tables.Ints:
    return np.arange(1 - length, length)


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
    assert isinstance(scheme, Disentangled)  # see why_unsupported
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


@dataclass(frozen=True)
class DistanceTables:
    """Tables of distances that the kernels read, for texts of up to `length` tokens.

    rows: R, one for each distance, and zeros. keys: address of each layer's vectors (H, R, Dh).
    bias: scores that no query changes, for each layer and head (L * H, 2 * length - 1), see
    `flat_biases`.
    """

    length: int
    rows: int
    keys: Sequence[int]
    bias: Floats
    distances: Distances
    packer: WeightPacker  # owns the memory

    def layers(self, layers: ctypes.Array[abi.Layer]) -> ctypes.Array[abi.Layer]:
        """Return copies of the layers that read these tables."""
        copies = (abi.Layer * len(layers))(*layers)
        for layer, keys in zip(copies, self.keys, strict=True):
            layer.relative = abi.RelativeTables(keys=keys)
        return copies


class DistanceScores:
    """Scores of the queries of all layers with distances: (query + shift) times a vector.

    The vector of a distance is its sinusoid, projected by a matrix of the layer.
    """

    def __init__(
        self,
        config: EncoderConfig,
        weights: Weights,
        isa: str,
        packing: Packing,
        linear: LinearFactory,
    ) -> None:
        """linear: a factory in float32, whose rows do not depend on each other."""
        scheme, self._width = config.attention.positions, config.hidden_size
        assert isinstance(scheme, TransformerXL)
        self._scheme, self._heads = scheme, config.attention.heads
        self._isa, self._dtype = isa, packing.dtype
        names = [f"layers.{layer.weights}" for layer in config.layers]
        self._projections = [
            _unbiased(weights[f"{each}.relative.weight"], linear) for each in names
        ]
        shifts = [_shifts(each, weights, self._heads) for each in names]
        self._biases = _unbiased(np.concatenate(shifts) * config.attention.scale, linear)
        self._kept: DistanceTables | None = None

    def tables(self, length: int) -> DistanceTables:
        """Return tables that suffice for texts of up to `length` tokens."""
        kept = self._kept  # read once, because another thread may replace it
        if kept is not None and length <= kept.length:
            return kept
        computed = self._compute(max(_SHORTEST, 1 << (length - 1).bit_length()))
        if computed.length <= _KEPT:
            self._kept = computed
        return computed

    def _compute(self, length: int) -> DistanceTables:
        distances = np.arange(length - 1, -length, -1)  # query minus key
        sinusoids = tables.transformer_xl(distances, self._width, self._scheme.base)
        packer = WeightPacker(self._isa, Packing(self._dtype))
        rows = padded_rows(len(sinusoids))
        keys = []
        for project in self._projections:
            vectors = np.pad(project(sinusoids), ((0, rows - len(sinusoids)), (0, 0)))
            by_head = vectors.reshape(rows, self._heads, -1).transpose(1, 0, 2)
            keys.append(packer.attention_panels(by_head))
        bias = flat_biases(self._biases(sinusoids).T)
        return DistanceTables(length, rows, keys, bias, Distances(length), packer)


def _unbiased(weight: Floats, linear: LinearFactory) -> Linear:
    return linear(weight.astype(np.float32), np.zeros(len(weight), np.float32))


def _shifts(layer: str, weights: Weights, heads: int) -> Floats:
    # The shift of each head times its vectors of distances: (H, D). The query already includes its
    # own bias.
    shift = (weights[f"{layer}.position_bias"] - weights[f"{layer}.query.bias"]).reshape(heads, -1)
    weight = weights[f"{layer}.relative.weight"].reshape(heads, shift.shape[1], -1)
    scores: Floats = np.einsum("hd,hdw->hw", shift, weight)
    return scores
