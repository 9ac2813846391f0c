"""The encoder in compiled code: one call for the whole pass."""

import ctypes
import re
from collections.abc import Mapping, Sequence
from ctypes import addressof, c_double, c_int64, c_void_p

import numpy as np
import torch
from torch import Tensor

from models.assembly import matrix
from models.batch import Batch
from models.config import EncoderConfig
from models.encoder import Embeddings, Floats
from models.isa import kernel
from models.linear import ACTIVATIONS
from models.norm import LayerNorm
from models.packed import PANEL, Matrix, Packer
from models.packing import Packing
from models.pooling import pool
from models.positions import Positions
from models.schemes import Alibi, Buckets, Scheme
from models.weights import Weights

_POOLINGS = ("cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken")
_PRODUCTS = ("qkv", "output", "up", "down")
_TENSORS = {
    *("token_table", "position_table", "segment_table", "bias_table", "norm"),
    *("query", "key", "value", "output", "up", "down", "attention_norm", "ffn_norm"),
}


class _Norm(ctypes.Structure):
    _fields_ = [(name, c_void_p) for name in ("weight", "bias")]


class _Layer(ctypes.Structure):
    _fields_ = [
        *((name, Matrix) for name in _PRODUCTS),
        *((name, _Norm) for name in ("attention_norm", "ffn_norm")),
    ]


class _Shape(ctypes.Structure):
    _fields_ = [
        *((name, c_int64) for name in ("width", "heads", "inner", "activation")),
        ("eps", c_double),
    ]


class _Tables(ctypes.Structure):
    _fields_ = [("tokens", c_void_p), ("positions", c_void_p), ("norm", _Norm)]


class _Bias(ctypes.Structure):
    _fields_ = [("offsets", c_void_p), ("reach", c_int64), ("causal", c_int64)]


class _Call(ctypes.Structure):
    _fields_ = [
        ("shape", c_void_p),
        ("layers", c_void_p),
        ("count", c_int64),
        ("tables", c_void_p),
        ("bias", _Bias),
        ("ids", c_void_p),
        ("lengths", c_void_p),
        ("sequences", c_int64),
        ("states", c_void_p),
        ("poolings", c_void_p),
        ("pooled", c_int64),
        ("vectors", c_void_p),
    ]


class Packed:
    """Weights as the kernels of an instruction set read them in a precision.

    Raises AttributeError where the instruction set lacks the precision.
    """

    def __init__(
        self, weights: Weights, dtype: str, isa: str, sizes: Mapping[str, Tensor] | None = None
    ) -> None:
        """sizes: for int8, those of the inputs of each product, by its name: see Observed."""
        self.run = kernel(isa, f"encode_{dtype}")
        self._weights, self._packer = weights, Packer(dtype, sizes)
        names = {name.rsplit(".", 2)[0] for name in weights if name.startswith("layers.")}
        self.layers = [self._layer(f"layers.{i}") for i in range(len(names))]

    def _layer(self, name: str) -> _Layer:
        matrices = {part: self._matrix(name, part) for part in _PRODUCTS}
        norms = {part: self._norm(f"{name}.{part}") for part in ("attention_norm", "ffn_norm")}
        return _Layer(**matrices, **norms)

    def _matrix(self, layer: str, name: str) -> Matrix:
        return self._packer.matrix(*matrix(self._weights, layer, name), f"{layer}.{name}")

    def _norm(self, name: str) -> _Norm:
        parts = (self._weights[f"{name}.{part}"] for part in ("weight", "bias"))
        return _Norm(*map(self._packer.keep, parts))


class NativeEncoder:
    """An encoder that keeps float32, and multiplies in the precision that it is packed in."""

    def __init__(self, embeddings: Embeddings, packed: Packed, positions: Positions) -> None:
        """positions: of the attention in every layer."""
        config, self._positions = embeddings.config, positions
        self._embeddings, self._packed, self._width = embeddings, packed, config.hidden_size
        self._layers = (_Layer * len(packed.layers))(*packed.layers)
        norm, table = embeddings.norm, embeddings.positions.table
        assert isinstance(norm, LayerNorm) and table is not None  # see `fits`
        # Every text is of the first segment: a constant, added once.
        self._places = table + embeddings.segment
        self._tables = _Tables(
            tokens=embeddings.tokens.data_ptr(),
            positions=self._places.data_ptr(),
            norm=_Norm(norm.weight.data_ptr(), norm.bias.data_ptr()),
        )
        self._shape = _Shape(
            width=config.hidden_size,
            heads=config.num_heads,
            inner=config.intermediate_size,
            activation=ACTIVATIONS[config.activation].number,
            eps=config.norm_eps,
        )

    def states(self, batch: Batch, count: int) -> Floats:
        """Hidden states after so many layers: (T, D)."""
        found = np.empty((len(batch.ids), self._width), dtype=np.float32)
        self._run(batch, count=count, states=found.ctypes.data)
        return found

    def vectors(self, batch: Batch, poolings: Sequence[str]) -> Floats:
        """The poolings of each sequence's last hidden states, side by side: (B, poolings * D)."""
        wanted = (c_int64 * len(poolings))(*map(_POOLINGS.index, poolings))
        found = np.empty((len(batch.lengths), len(poolings) * self._width), dtype=np.float32)
        partly = batch.skips > 0
        states = np.empty((partly.any() * len(batch.ids), self._width), dtype=np.float32)
        self._run(
            batch,
            count=len(self._layers),
            poolings=addressof(wanted),
            pooled=len(poolings),
            vectors=found.ctypes.data,
            states=states.ctypes.data if partly.any() else 0,
        )
        if partly.any():  # the kernels pool whole texts
            found[partly] = _pooled(states, batch, poolings)[partly]
        return found

    def warm(self) -> None:
        """Nothing is built for a batch."""

    def _run(self, batch: Batch, **wanted: int) -> None:
        bias, reach = self._bias(batch)
        call = _Call(
            shape=addressof(self._shape),
            layers=addressof(self._layers),
            tables=addressof(self._tables),
            bias=_Bias(
                None if bias is None else bias.data_ptr(),
                reach,
                self._embeddings.config.causal,
            ),
            ids=batch.ids.ctypes.data,
            lengths=batch.lengths.ctypes.data,
            sequences=len(batch.lengths),
            **wanted,
        )
        self._packed.run(call)

    def _bias(self, batch: Batch) -> tuple[Tensor | None, int]:
        reach = int(batch.lengths.max())
        offsets = self._positions.bias(reach)
        if offsets is None:
            return None, 0
        # Whole vectors are read: the last may go past the table's end.
        return torch.nn.functional.pad(offsets.to(torch.float32).flatten(), (0, PANEL)), reach


def _pooled(states: Floats, batch: Batch, poolings: Sequence[str]) -> Floats:
    packing, skips = Packing(batch.lengths.tolist(), torch.device("cpu")), batch.skips
    found: Floats = pool(
        torch.from_numpy(states), packing, poolings, torch.from_numpy(skips)
    ).numpy()
    return found


def fits(config: EncoderConfig, weights: Weights) -> bool:
    """Whether the kernels know how to compute a model: as BERT, whatever the scores gain."""
    tensors = {re.sub(r"^layers\.\d+\.|\.(weight|bias)$", "", name) for name in weights}
    sizes = config.hidden_size % 64 == config.intermediate_size % 64 == config.head_size % 32 == 0
    bert = EncoderConfig(
        family=config.family,
        vocab_size=config.vocab_size,
        hidden_size=config.hidden_size,
        num_layers=config.num_layers,
        num_heads=config.num_heads,
        intermediate_size=config.intermediate_size,
        max_positions=config.max_positions,
        norm_eps=config.norm_eps,
        activation=config.activation,
        table=config.table,
        positions=config.positions,
        segments=config.segments,
        causal=config.causal,
    )
    added = config.table.name != Scheme.name and type(config.positions) in (Scheme, Alibi, Buckets)
    return sizes and added and config == bert and tensors <= _TENSORS
