"""A position scheme at given positions: its options and its numbers."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import numpy as np

from models.positions import tables
from models.positions.schemes import (
    Alibi,
    Buckets,
    Disentangled,
    Learned,
    Recurrent,
    Rotary,
    Scheme,
    Sinusoidal,
)

_OPTIONS: Mapping[str, tuple[str, ...]] = {
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
_STRETCHED: Mapping[str, tuple[str, ...]] = {
    "default": (),
    "linear": ("factor",),
    "dynamic": ("factor", "original", "length"),
    "ntk": ("factor",),
    "yarn": ("factor", "original", "magnitude", "fast", "slow", "whole"),
    "llama3": ("factor", "original", "fast", "slow"),
}


@dataclass(frozen=True)
class Encoding:
    """A scheme at P positions.

    dim: of vectors. heads, causal: of what is added to the scores. bidirectional: of buckets.
    trained: whether this is what the model was trained with. length: of the text, on which dynamic
    scaling depends.
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
        """Every option of the scheme, given or not."""
        known: dict[str, Any] = {**vars(self), **vars(self.scheme)}
        kind = "default"
        if isinstance(self.scheme, Rotary):
            kind = self.scheme.scaling.kind
            known |= {**vars(self.scheme.scaling), "scaling": kind}
        return {option: known[option] for option in options(self.name, kind)}

    @property
    def values(self) -> int:
        """How many numbers there are, in the answer or on the way to it."""
        rows = len(self.positions)
        match self.scheme:
            case Alibi():
                return rows * rows * self.heads
            case Buckets():
                return rows * rows * (1 + self.heads * self.trained)
            case Disentangled():
                return rows * rows
            case Recurrent():
                distinct = 2 * int(np.ptp(self.positions)) + 1
                return max(rows * rows, min(rows * rows, distinct) * self.dim)
            case Learned() | Sinusoidal() | Rotary():
                return rows * self.dim
        return 0


def options(name: str, scaling: str = "default") -> tuple[str, ...]:
    """The options of a scheme, with those of the scaling where it is rotary."""
    return (*_OPTIONS[name], *_STRETCHED[scaling])


@singledispatch
def numbers(scheme: Scheme, asked: Encoding) -> dict[str, Any]:
    """What a scheme is at the positions: vectors (P, dim), (queries, keys) or with heads before."""
    return {}


@numbers.register
def _(scheme: Sinusoidal, asked: Encoding) -> dict[str, Any]:
    return {"vectors": tables.sinusoidal(asked.positions, asked.dim, scheme.base)}


@numbers.register
def _(scheme: Rotary, asked: Encoding) -> dict[str, Any]:
    columns = np.arange(asked.dim)
    pairs = columns.reshape(-1, 2) if scheme.interleaved else np.stack(np.split(columns, 2), 1)
    cos, sin = tables.rotary(asked.positions, scheme, asked.length)
    return {"pairs": pairs, "cos": cos, "sin": sin}


@numbers.register
def _(scheme: Alibi, asked: Encoding) -> dict[str, Any]:
    slopes = tables.alibi_slopes(asked.heads, scheme.steepest)
    return {"slopes": slopes, "bias": tables.alibi(asked.positions, slopes, asked.causal)}


@numbers.register
def _(scheme: Buckets, asked: Encoding) -> dict[str, Any]:
    distances = tables.relative(asked.positions)
    sizes = scheme.buckets, scheme.max_distance
    return {"buckets": tables.buckets(distances, *sizes, asked.bidirectional)}


@numbers.register
def _(scheme: Disentangled, asked: Encoding) -> dict[str, Any]:
    distances = -tables.relative(asked.positions)
    found = tables.log_buckets(distances, scheme.buckets, scheme.max_distance)
    return {"buckets": found.clip(-scheme.span, scheme.span - 1)}


@numbers.register
def _(scheme: Recurrent, asked: Encoding) -> dict[str, Any]:
    distances = np.unique(-tables.relative(asked.positions))
    return {"distances": distances, "vectors": tables.halves(distances, asked.dim, scheme.base)}
