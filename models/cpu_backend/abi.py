"""What the kernels read, as models/kernels lays it out, by the names that it has there."""

import ctypes
from collections.abc import Mapping
from ctypes import c_double, c_int64, c_void_p

ABI = 1
"""The version of all this, as kernels/abi.h has it."""


class Matrix(ctypes.Structure):
    """See rows.h."""

    _fields_ = [(name, c_void_p) for name in ("panels", "bias", "scales", "sums", "smoothing")]


class Norm(ctypes.Structure):
    """See rows.h. Of a null one, the addresses are zero."""

    _fields_ = [("weight", c_void_p), ("bias", c_void_p), ("centred", c_int64)]


class Norms(ctypes.Structure):
    """See layers.h: of what a part of a layer reads, of what it gives, and of the sum."""

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
    """See rotation.h. A null one turns nothing."""

    _fields_ = [(name, c_void_p) for name in ("cos", "sin")]


class Pass(ctypes.Structure):
    """See layers.h, where it is the Call of a whole pass."""

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


class Product(ctypes.Structure):
    """See linear.cpp, where it is the Call of one layer."""

    _fields_ = [
        *((name, c_void_p) for name in ("linear", "x", "residual", "out")),
        ("rows", c_int64),
    ]


_LAYOUTS: Mapping[str, list[type[ctypes.Structure]]] = {  # by the function that tells their sizes
    "encoder_abi": [Matrix, Norm, Norms, Layer, Shape, Tables, Bias, Rotation, Pass],
    "linear_abi": [Matrix, Linear, Product],
}


def check(library: ctypes.CDLL) -> None:
    """Raises OSError for a library that was compiled for another layout of these structs."""
    for name, structs in _LAYOUTS.items():
        expected = [ABI, *map(ctypes.sizeof, structs), -1]
        abi = getattr(library, name, None)
        if abi is not None:
            abi.argtypes, abi.restype = [c_int64], c_int64
        if abi is None or [abi(index) for index in range(len(expected))] != expected:
            raise OSError(
                "they were compiled from another version; compile them again: make kernels, or "
                "pip install this package again"
            )
