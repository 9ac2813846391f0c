"""The structs that the kernels read, with the names and layout of models/kernels."""

import ctypes
from collections.abc import Mapping
from ctypes import c_double, c_int64, c_void_p

ABI = 1
"""The version of these structs, as in kernels/abi.h."""


class Matrix(ctypes.Structure):
    """See rows.h."""

    _fields_ = [(name, c_void_p) for name in ("panels", "bias", "scales", "sums", "smoothing")]


class Norm(ctypes.Structure):
    """See rows.h. Zero addresses stand for no norm."""

    _fields_ = [("weight", c_void_p), ("bias", c_void_p), ("centred", c_int64)]


class Norms(ctypes.Structure):
    """See layers.h: norms of a part's input, of its output, and of their sum."""

    _fields_ = [(name, Norm) for name in ("entry", "exit", "sum")]


class Layer(ctypes.Structure):
    """See layers.h."""

    _fields_ = [
        *((name, Matrix) for name in ("qkv", "output", "up", "down")),
        *((name, Norm) for name in ("query_norm", "key_norm")),
        *((name, Norms) for name in ("attention", "ffn")),
        *((name, c_int64) for name in ("rotation", "reach")),
    ]


class Shape(ctypes.Structure):
    """See layers.h."""

    _fields_ = [
        *((name, c_int64) for name in ("width", "heads", "kv_heads", "size", "inner")),
        *((name, c_int64) for name in ("arrangement", "activation", "gated", "causal")),
        *((name, c_double) for name in ("scale", "eps")),
    ]


class Tables(ctypes.Structure):
    """See pool.h."""

    _fields_ = [
        *((name, c_void_p) for name in ("tokens", "positions")),
        *((name, c_int64) for name in ("step", "padding")),
        ("scale", c_double),
        ("norm", Norm),
    ]


class Bias(ctypes.Structure):
    """See attention.h."""

    _fields_ = [("offsets", c_void_p), ("reach", c_int64)]


class Rotation(ctypes.Structure):
    """See rotation.h. Zero addresses stand for no rotation."""

    _fields_ = [(name, c_void_p) for name in ("cos", "sin")]


class ForwardCall(ctypes.Structure):
    """The Call of a forward pass, see layers.h."""

    _fields_ = [
        *((name, c_void_p) for name in ("shape", "layers")),
        ("count", c_int64),
        *((name, c_void_p) for name in ("last", "tables")),
        ("bias", Bias),
        *((name, c_void_p) for name in ("rotations", "places", "ids", "lengths")),
        ("sequences", c_int64),
        *((name, c_void_p) for name in ("states", "poolings")),
        ("pooled", c_int64),
        ("vectors", c_void_p),
    ]


class Linear(ctypes.Structure):
    """See linear.cpp."""

    _fields_ = [
        ("matrix", Matrix),
        *((name, c_int64) for name in ("depth", "columns", "activation", "gated")),
    ]


class LinearCall(ctypes.Structure):
    """The Call of a linear layer, see linear.cpp."""

    _fields_ = [
        *((name, c_void_p) for name in ("linear", "x", "residual", "out")),
        ("rows", c_int64),
    ]


_STRUCTS: Mapping[str, list[type[ctypes.Structure]]] = {  # by the function with their sizes
    "encoder_abi": [Matrix, Norm, Norms, Layer, Shape, Tables, Bias, Rotation, ForwardCall],
    "linear_abi": [Matrix, Linear, LinearCall],
}


def check(library: ctypes.CDLL) -> None:
    """Raise OSError for a library that was compiled with other structs."""
    for name, structs in _STRUCTS.items():
        expected = [ABI, *map(ctypes.sizeof, structs), -1]
        abi = getattr(library, name, None)
        if abi is not None:
            abi.argtypes, abi.restype = [c_int64], c_int64
        if abi is None or [abi(index) for index in range(len(expected))] != expected:
            raise OSError(
                "they were compiled from another version; compile them again: make kernels, or "
                "pip install this package again"
            )
