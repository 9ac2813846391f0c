"""Scores of queries with the distances of a text, as in XLNet's attention.

Dai et al. 2019, arXiv 1901.02860. L layers, H heads, Dh head size, D model width, R rows.
"""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from embedwell_models.checkpoint.weights import Weights
from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.cpu_backend import abi
from embedwell_models.cpu_backend.disentangled import Distances, padded_rows
from embedwell_models.cpu_backend.position_bias import flat
from embedwell_models.cpu_backend.prepack import Packing, WeightPacker
from embedwell_models.encoder.layers import Linear, LinearFactory
from embedwell_models.positions import tables
from embedwell_models.positions.schemes import TransformerXL
from embedwell_models.vectors import Floats

_SHORTEST, _KEPT = 128, 512  # tokens; tables for longer texts take too much memory to be kept


@dataclass(frozen=True)
class DistanceTables:
    """Tables of distances that the kernels read, for texts of up to `length` tokens.

    rows: R, one for each distance, and zeros. keys: address of each layer's vectors (H, R, Dh).
    bias: scores that no query changes, for each layer and head (L * H, 2 * length - 1), see `flat`.
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
        bias = flat(self._biases(sinusoids).T)
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
