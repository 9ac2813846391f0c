"""Structs of the kernels' ABI, with the same names and layout as in kernels/."""

import ctypes
import hashlib
from collections.abc import Mapping, Sequence
from ctypes import c_double, c_int64, c_void_p
from pathlib import Path


class Matrix(ctypes.Structure):
    """See rows.h."""

    _fields_ = [
        *((name, c_void_p) for name in ("panels", "bias")),
        ("stored", c_int64),
        *((name, c_void_p) for name in ("levels", "scales", "sums", "smoothing", "observed")),
    ]


class Norm(ctypes.Structure):
    """See rows.h. Null addresses mean no norm."""

    _fields_ = [
        *((name, c_void_p) for name in ("weight", "bias")),
        *((name, c_int64) for name in ("subtract_mean", "padding")),
    ]


class PartNorms(ctypes.Structure):
    """See layers.h: norms of the input of a layer's part, of its output, and of their sum."""

    _fields_ = [(name, Norm) for name in ("input", "output", "sum")]


class InputGate(ctypes.Structure):
    """See layers.h. Null matrices mean no gate."""

    _fields_ = [
        *((name, Matrix) for name in ("features", "down", "up")),
        ("features_norm", Norm),
        ("norms", PartNorms),
        ("scale", c_double),
    ]


class Heads(ctypes.Structure):
    """See layers.h."""

    _fields_ = [(name, c_int64) for name in ("count", "kv_count", "size", "gated")]


class Expert(ctypes.Structure):
    """See experts.h."""

    _fields_ = [(name, Matrix) for name in ("up", "down")]


class Convolution(ctypes.Structure):
    """See convolution.h. Zeros mean no convolution."""

    _fields_ = [
        *((name, c_void_p) for name in ("weight", "bias")),
        *((name, c_int64) for name in ("width", "before")),
    ]


class DeltaHeads(ctypes.Structure):
    """See delta.h."""

    _fields_ = [(name, c_int64) for name in ("count", "key_count", "size", "key_size")]


class DeltaNet(ctypes.Structure):
    """See delta.h. Zeros mean no such layer."""

    _fields_ = [
        *((name, c_void_p) for name in ("convolution", "rates")),
        ("tokens", c_int64),
        ("heads", DeltaHeads),
        ("norm", Norm),
    ]


class Experts(ctypes.Structure):
    """See experts.h. Zeros mean a single network."""

    _fields_ = [
        *((name, c_void_p) for name in ("router", "each", "bias")),
        *((name, c_int64) for name in ("count", "top")),
    ]


class RelativeTables(ctypes.Structure):
    """See relative.h. Null addresses mean that the model lacks the scores."""

    _fields_ = [(name, c_void_p) for name in ("keys", "queries")]


class Layer(ctypes.Structure):
    """See layers.h."""

    _fields_ = [
        *((name, Matrix) for name in ("qkv", "output", "up", "down")),
        ("convolution", Convolution),
        ("delta_net", DeltaNet),
        ("experts", Experts),
        ("heads", Heads),
        *((name, Norm) for name in ("query_norm", "key_norm", "value_norm")),
        *((name, PartNorms) for name in ("attention_norms", "ffn_norms")),
        *((name, Norm) for name in ("inner_norm", "mixed_norm")),
        ("relative", RelativeTables),
        ("gate", InputGate),
        *((name, c_int64) for name in ("rotation_index", "window", "first_bias")),
    ]


class KernelConfig(ctypes.Structure):
    """See layers.h."""

    _fields_ = [
        ("hidden_size", c_int64),
        ("heads", Heads),
        ("delta_heads", DeltaHeads),
        *(
            (name, c_int64)
            for name in ("intermediate_size", "gate_size", "experts", "top", "buckets", "convolves")
        ),
        *((name, c_int64) for name in ("arrangement", "activation", "gated", "causal")),
        *((name, c_double) for name in ("scale", "softcap", "norm_eps", "inner_norm_eps")),
    ]


class EmbeddingTables(ctypes.Structure):
    """See pool.h."""

    _fields_ = [
        *((name, c_void_p) for name in ("tokens", "positions")),
        *((name, c_int64) for name in ("position_stride", "padding_id")),
        *((name, c_int64) for name in ("vocab_size", "num_positions")),
        ("token_scale", c_double),
        ("norm", Norm),
    ]


class PositionBias(ctypes.Structure):
    """See attention.h."""

    _fields_ = [("values", c_void_p), ("max_length", c_int64)]


class Distances(ctypes.Structure):
    """See relative.h."""

    _fields_ = [("buckets", c_void_p)]


class Rotation(ctypes.Structure):
    """See layers.h. Null addresses mean no rotation."""

    _fields_ = [(name, c_void_p) for name in ("cos", "sin")]


class ForwardCall(ctypes.Structure):
    """See layers.h."""

    _fields_ = [
        *((name, c_void_p) for name in ("config", "layers")),
        ("num_layers", c_int64),
        *((name, c_void_p) for name in ("final_norm", "embedding_tables")),
        ("position_bias", PositionBias),
        ("distances", Distances),
        *((name, c_void_p) for name in ("rotations", "positions", "token_ids")),
        *((name, c_void_p) for name in ("lengths", "key_counts")),
        ("num_sequences", c_int64),
        *((name, c_void_p) for name in ("states", "poolings")),
        ("num_poolings", c_int64),
        ("vectors", c_void_p),
    ]


class Linear(ctypes.Structure):
    """See linear.cpp."""

    _fields_ = [
        ("matrix", Matrix),
        *((name, c_int64) for name in ("depth", "columns", "activation", "gated")),
    ]


class LinearCall(ctypes.Structure):
    """See linear.cpp."""

    _fields_ = [
        *((name, c_void_p) for name in ("linear", "x", "residual", "out")),
        ("rows", c_int64),
    ]


class RowMaximumCall(ctypes.Structure):
    """See linear.cpp."""

    _fields_ = [
        *((name, c_void_p) for name in ("linear", "x", "sequence_of", "maxima")),
        ("rows", c_int64),
    ]


class TeamTimes(ctypes.Structure):
    """See thread_pool.cpp."""

    _fields_ = [(name, c_int64) for name in ("size", "elapsed", "computed")]


_STRUCTS: Mapping[str, list[type[ctypes.Structure]]] = {  # C function -> structs of its sizes
    "encoder_abi": [
        *(Matrix, Norm, PartNorms, InputGate, Heads, Convolution, DeltaHeads, DeltaNet),
        *(Expert, Experts, Layer, RelativeTables, KernelConfig, EmbeddingTables, PositionBias),
        *(Distances, Rotation, ForwardCall),
    ],
    "linear_abi": [Matrix, Linear, LinearCall, RowMaximumCall],
    "threads_abi": [TeamTimes],
}
KERNELS, THREADS = ("encoder_abi", "linear_abi"), ("threads_abi",)
"""The C functions of the libraries of kernels, and of the library of their threads."""


def source_checksum(folder: Path) -> int:
    """Return the checksum of the kernels' sources, as hatch_build.py compiles it into them."""
    sources = (path.read_bytes() for path in sorted(folder.glob("*.[ch]*")))
    return int(hashlib.sha256(b"".join(sources)).hexdigest()[:15], 16)


def check(library: ctypes.CDLL, checksum: int, functions: Sequence[str] = KERNELS) -> None:
    """Raise OSError for a library that was compiled from other sources or with other structs.

    functions: C functions of the library, which return its checksum and sizes.
    """
    for name in functions:
        expected = [checksum, *map(ctypes.sizeof, _STRUCTS[name]), -1]
        abi = getattr(library, name, None)
        if abi is not None:
            abi.argtypes, abi.restype = [c_int64], c_int64
        if abi is None or [abi(index) for index in range(len(expected))] != expected:
            raise OSError(
                "they were compiled from other sources; compile them again: make kernels, or "
                "pip install this package again"
            )
