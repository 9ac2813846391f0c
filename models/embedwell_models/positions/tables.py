"""Mathematics of position encodings, as numpy tables. P positions, H heads."""

import math
import sys
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from embedwell_models.positions.schemes import GridRotary, Rotary, Scaling, Sinusoidal
from embedwell_models.vectors import Doubles, Floats

Ints = npt.NDArray[np.int64]


def angles(positions: Ints, dim: int, base: float = 10000.0) -> Doubles:
    """Return position * base^(-2i/dim) for i < dim/2: (P, dim/2) radians in double precision."""
    frequencies = base ** (-np.arange(0, dim, 2, dtype=np.float64) / dim)
    return positions[:, None].astype(np.float64) * frequencies


def sinusoidal(positions: Ints, dim: int, base: float = 10000.0) -> Floats:
    """Return sines in the even columns and cosines in the odd columns: (P, dim).

    Vaswani et al. 2017, "Attention Is All You Need", section 3.5 (arXiv 1706.03762).
    """
    radians = angles(positions, dim, base)
    table = np.empty((len(positions), dim), dtype=np.float32)
    table[:, 0::2] = np.sin(radians)
    table[:, 1::2] = np.cos(radians)[:, : dim // 2]
    return table


def sinusoidal_of(scheme: Sinusoidal, positions: Ints, dim: int) -> Floats:
    """Return the vectors that a scheme adds at some positions: (P, dim)."""
    positions = positions + scheme.offset
    if not scheme.halves:
        return sinusoidal(positions, dim, scheme.base)
    count = dim // 2
    frequencies = scheme.base ** (-np.arange(count, dtype=np.float64) / max(count - 1, 1))
    radians = positions[:, None] * frequencies
    odd = np.zeros((len(positions), dim % 2))
    return np.concatenate([np.sin(radians), np.cos(radians), odd], axis=1).astype(np.float32)


def sinusoidal_table(scheme: Sinusoidal, rows: int, dim: int) -> Floats:
    """Return the vectors of the first positions, after that of the padding token if there is one.

    -> (rows, dim) or (1 + rows, dim).
    """
    table = sinusoidal_of(scheme, np.arange(rows), dim)
    return table if scheme.padding < 0 else np.pad(table, ((1, 0), (0, 0)))


def transformer_xl(positions: Ints, dim: int, base: float = 10000.0) -> Floats:
    """Return all sines, then all cosines: (P, dim).

    Dai et al. 2019, "Transformer-XL" (arXiv 1901.02860), in the order of the authors' code.
    """
    radians = angles(positions, dim, base)
    return np.concatenate([np.sin(radians), np.cos(radians)], axis=1).astype(np.float32)


def rotary(positions: Ints, scheme: Rotary, length: int = 0) -> tuple[Floats, Floats]:
    """Return cosine and sine of the rotation of each pair of features: two arrays (P, dim/2).

    length: number of tokens of the text, for dynamic scaling and LongRoPE.

    Su et al. 2021, "RoFormer" (arXiv 2104.09864), equation 34. Pair i is columns (2i, 2i+1) in
    the paper's layout and (i, i + dim/2) in the layout of GPT-NeoX and Llama.
    """
    turned = radians(positions, scheme, length)
    parts = (np.cos(turned), np.sin(turned))
    cos, sin = ((part * scheme.scaling.magnitude).astype(np.float32) for part in parts)
    return cos, sin


def radians(positions: Ints, scheme: Rotary, length: int = 0) -> Doubles:
    """Return the angle by which each pair of features is rotated: (P, dim/2).

    length: see `rotary`.
    """
    if not isinstance(scheme, GridRotary):
        turned: Doubles = positions[:, None] * frequencies(scheme, length)
        return turned
    places = np.divmod(positions - 1, scheme.side)  # row and column
    halves = [angles(each, scheme.dim // 2, scheme.base) * scheme.step for each in places]
    return np.where(positions[:, None] > 0, np.concatenate(halves, axis=1), 0.0)


@lru_cache
def frequencies(scheme: Rotary, length: int = 0) -> Doubles:
    """Return the radians per position of each pair of features, after scaling: (dim/2,)."""
    if scheme.frequencies:
        return np.array(scheme.frequencies)
    scaling, base = scheme.scaling, scheme.base
    if scaling.kind == "dynamic" and length > scaling.original:
        stretch = scaling.factor * length / scaling.original - (scaling.factor - 1)
        base *= stretch ** (scheme.dim / (scheme.dim - 2))
    plain = base ** (-np.arange(0, scheme.dim, 2, dtype=np.float64) / scheme.dim)
    if scaling.kind == "longrope":  # Ding et al. 2024 (arXiv 2402.13753), section 3
        is_long = length > scaling.original
        divided: Doubles = plain / np.array(scaling.long if is_long else scaling.short)
        return divided
    if scaling.kind == "ntk":  # kexue.fm/archives/9706, equation 6
        plain *= scaling.factor ** (-np.arange(1, len(plain) + 1) / len(plain))
    unscaled = _unscaled_share(scaling, plain, scheme)
    mixed: Doubles = plain * unscaled + plain / scaling.factor * (1 - unscaled)
    return mixed


def longest_unscaled(scheme: Rotary) -> int:
    """Return the maximum length of texts that all have the same `frequencies`."""
    scaled = scheme.scaling.kind in ("dynamic", "longrope") and not scheme.frequencies
    return scheme.scaling.original if scaled else sys.maxsize


def scaled_lengths(scheme: Rotary, lengths: Ints) -> Ints:
    """Return for each text length the least one that has the same `frequencies`: (B,)."""
    scaling = scheme.scaling
    stretched = lengths if scaling.kind == "dynamic" else scaling.original + 1
    return np.where(lengths > longest_unscaled(scheme), stretched, 0)


def _unscaled_share(scaling: Scaling, plain: Doubles, scheme: Rotary) -> Doubles:
    # Share (0 to 1) of each frequency that is not divided by the factor.
    if scaling.kind == "linear":
        return np.zeros_like(plain)
    if scaling.kind == "llama3":  # Grattafiori et al. 2024 (arXiv 2407.21783), section 3.2
        turns = scaling.original * plain / (2 * np.pi)
        share: Doubles = np.clip((turns - scaling.slow) / (scaling.fast - scaling.slow), 0, 1)
        return share
    if scaling.kind == "yarn":  # Peng et al. 2023 (arXiv 2309.00071), section 3.2
        first, last = _yarn_ramp(scaling, scheme)
        columns = np.arange(len(plain), dtype=np.float64)
        return 1 - np.clip((columns - first) / (last - first), 0, 1)
    return np.ones_like(plain)


def _yarn_ramp(scaling: Scaling, scheme: Rotary) -> tuple[float, float]:
    # Columns whose frequencies make `fast` and `slow` turns within the original length.
    turns = scaling.original / (2 * np.pi * np.array([scaling.fast, scaling.slow]))
    first, last = scheme.dim * np.log(turns) / (2 * np.log(scheme.base))
    if scaling.whole:
        first, last = np.floor(first), np.ceil(last)
    first, last = np.clip([first, last], 0.0, scheme.dim - 1.0)
    return first, last if last > first else first + 0.001


def yarn_magnitude(factor: float, weight: float = 1.0) -> float:
    """Return the factor of cosine and sine for a context that is `factor` times as long.

    Peng et al. 2023, "YaRN" (arXiv 2309.00071), equation 22.
    """
    return 0.1 * weight * math.log(factor) + 1.0 if factor > 1 else 1.0


def longrope_magnitude(factor: float, original: int) -> float:
    """Return the factor of cosine and sine for a context of `factor` times `original` tokens.

    Ding et al. 2024, "LongRoPE" (arXiv 2402.13753), as in the code of Phi-3.
    """
    return math.sqrt(1 + math.log(factor) / math.log(original)) if factor > 1 else 1.0


def alibi_slopes(heads: int, steepest: float = 8.0) -> Floats:
    """Return the slope of each head: (H,).

    Press et al. 2021, "Train Short, Test Long" (arXiv 2108.12409): 2^(-8i/H) for a power of two;
    otherwise the slopes for the next lower power, then every second slope of the next higher power.
    steepest: replaces the 8.
    """
    below = 1 << (heads.bit_length() - 1)
    first = 2.0 ** (-steepest * np.arange(1, below + 1) / below)
    between = 2.0 ** (-steepest * np.arange(1, 2 * (heads - below), 2) / (2 * below))
    return np.concatenate([first, between]).astype(np.float32)


def alibi_bias(positions: Ints, slopes: Floats, causal: bool = False) -> Floats:
    """Return the bias of the attention scores, -slope * |query - key|: (H, P, P).

    causal: whether the bias is minus infinity for a key after the query.
    """
    distances = relative_positions(positions)
    bias: Floats = 0 - slopes[:, None, None] * np.abs(distances).astype(np.float32)
    return np.where(distances > 0, np.float32("-inf"), bias) if causal else bias


def relative_positions(positions: Ints) -> Ints:
    """Return key - query for every pair of positions: (P, P)."""
    differences: Ints = positions[None, :] - positions[:, None]
    return differences


def t5_buckets(
    distances: Ints, buckets: int = 32, max_distance: int = 128, bidirectional: bool = True
) -> Ints:
    """Return the bucket (0 to buckets - 1) of each distance, key minus query, in the same shape.

    Raffel et al. 2020, "T5" (arXiv 1910.10683), section 2.1: half of the buckets hold exact
    distances, the others grow logarithmically up to max_distance.
    """
    offset = np.zeros_like(distances)
    if bidirectional:
        buckets //= 2
        offset = np.where(distances > 0, buckets, 0)
        distance = np.abs(distances)
    else:
        distance = np.maximum(-distances, 0)
    exact = buckets // 2
    return offset + np.where(
        distance < exact, distance, _log_buckets(distance, exact, buckets, max_distance)
    )


def deberta_buckets(distances: Ints, buckets: int, max_distance: int) -> Ints:
    """Return the signed bucket of each distance in the same shape; with 0 buckets, the distance.

    He et al. 2021, "DeBERTaV3" (arXiv 2111.09543): half of the buckets hold exact distances, the
    others grow logarithmically up to max_distance.
    """
    if not buckets:
        return distances
    middle = buckets // 2
    # In float32, as the reference model computed it: double rounds the borders differently.
    ratio = np.log(np.maximum(np.abs(distances), middle).astype(np.float32) / np.float32(middle))
    scale = np.log(np.float32((max_distance - 1) / middle))
    far = np.ceil(ratio / scale * np.float32(middle - 1)).astype(np.int64) + middle
    signed: Ints = np.where(np.abs(distances) <= middle, distances, far * np.sign(distances))
    return signed


def _log_buckets(distance: Ints, exact: int, buckets: int, max_distance: int) -> Ints:
    # In float32, as the reference models computed it: double rounds the borders differently.
    ratio = np.log(np.maximum(distance, 1).astype(np.float32) / np.float32(exact))
    scale = np.float32(np.log(max_distance / exact))
    far = exact + (ratio / scale * np.float32(buckets - exact)).astype(np.int64)
    clipped: Ints = np.minimum(far, buckets - 1)
    return clipped
