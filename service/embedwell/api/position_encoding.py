"""Apply a position scheme to positions: compute its parameters and tables."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import numpy as np

from embedwell_models.positions import tables
from embedwell_models.positions.schemes import (
    Alibi,
    Buckets,
    Disentangled,
    Learned,
    Rotary,
    Scheme,
    Sinusoidal,
    TransformerXL,
)

_SCHEME_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "none": (),
    "sinusoidal": ("dim", "base"),
    "learned": (),
    "rotary": ("dim", "base", "interleaved", "scaling"),
    "alibi": ("heads", "steepest", "causal"),
    "relative": ("buckets", "max_distance", "bidirectional"),
    "mpnet": ("buckets", "max_distance", "bidirectional"),
    "disentangled": ("buckets", "max_distance"),
    "transformer_xl": ("dim", "base"),
}
_SCALING_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "default": (),
    "linear": ("factor",),
    "dynamic": ("factor", "original", "length"),
    "ntk": ("factor",),
    "yarn": ("factor", "original", "magnitude", "fast", "slow", "whole"),
    "llama3": ("factor", "original", "fast", "slow"),
    "longrope": ("original", "length", "magnitude"),
}


@dataclass(frozen=True)
class PositionEncoding:
    """A position scheme at P positions.

    dim: dimensions of the vectors.
    heads, causal: shape of the bias that is added to attention scores.
    bidirectional: whether keys before and after a query have different buckets.
    trained: whether the model was trained with exactly this scheme.
    length: tokens of the text, for dynamic scaling and LongRoPE.
    """

    name: str
    scheme: Scheme
    positions: tables.Ints
    dim: int
    heads: int
    causal: bool
    bidirectional: bool
    trained: bool
    length: int

    @property
    def parameters(self) -> dict[str, Any]:
        """Return every option of the scheme with its value."""
        values: dict[str, Any] = {**vars(self), **vars(self.scheme)}
        scaling = "default"
        if isinstance(self.scheme, Rotary):
            scaling = self.scheme.scaling.kind
            values |= {**vars(self.scheme.scaling), "scaling": scaling}
        return {option: values[option] for option in option_names(self.name, scaling)}

    @property
    def value_bound(self) -> int:
        """Return an upper bound for the numbers in the response and in intermediate arrays."""
        rows = len(self.positions)
        match self.scheme:
            case Alibi():
                return rows * rows * self.heads
            case Buckets():
                return rows * rows * (1 + self.heads * self.trained)
            case Disentangled():
                return rows * rows
            case TransformerXL():
                distances = 2 * int(np.ptp(self.positions)) + 1
                return max(rows * rows, min(rows * rows, distances) * self.dim)
            case Learned() | Sinusoidal() | Rotary():
                return rows * self.dim
        return 0


def option_names(scheme: str, scaling: str = "default") -> tuple[str, ...]:
    """List the options of a scheme, including those of its scaling if it is rotary."""
    return (*_SCHEME_OPTIONS[scheme], *_SCALING_OPTIONS[scaling])


@singledispatch
def compute_tables(scheme: Scheme, encoding: PositionEncoding) -> dict[str, Any]:
    """Compute a scheme's tables: vectors (P, dim), buckets (P, P), bias (H, P, P)."""
    return {}


@compute_tables.register
def _(scheme: Sinusoidal, encoding: PositionEncoding) -> dict[str, Any]:
    return {"vectors": tables.sinusoidal(encoding.positions, encoding.dim, scheme.base)}


@compute_tables.register
def _(scheme: Rotary, encoding: PositionEncoding) -> dict[str, Any]:
    columns = np.arange(encoding.dim)
    pairs = columns.reshape(-1, 2) if scheme.interleaved else np.stack(np.split(columns, 2), 1)
    cos, sin = tables.rotary(encoding.positions, scheme, encoding.length)
    return {"pairs": pairs, "cos": cos, "sin": sin}


@compute_tables.register
def _(scheme: Alibi, encoding: PositionEncoding) -> dict[str, Any]:
    slopes = tables.alibi_slopes(encoding.heads, scheme.steepest)
    return {
        "slopes": slopes,
        "bias": tables.alibi_bias(encoding.positions, slopes, encoding.causal),
    }


@compute_tables.register
def _(scheme: Buckets, encoding: PositionEncoding) -> dict[str, Any]:
    distances = tables.relative_positions(encoding.positions)
    sizes = scheme.buckets, scheme.max_distance
    return {"buckets": tables.t5_buckets(distances, *sizes, encoding.bidirectional)}


@compute_tables.register
def _(scheme: Disentangled, encoding: PositionEncoding) -> dict[str, Any]:
    distances = -tables.relative_positions(encoding.positions)
    buckets = tables.deberta_buckets(distances, scheme.buckets, scheme.max_distance)
    return {"buckets": buckets.clip(-scheme.span, scheme.span - 1)}


@compute_tables.register
def _(scheme: TransformerXL, encoding: PositionEncoding) -> dict[str, Any]:
    distances = np.unique(-tables.relative_positions(encoding.positions))
    vectors = tables.transformer_xl(distances, encoding.dim, scheme.base)
    return {"distances": distances, "vectors": vectors}
