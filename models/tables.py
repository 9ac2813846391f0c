"""The mathematics of position encodings, as numpy tables. P positions, H heads."""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]


def angles(positions: Ints, dim: int, base: float = 10000.0) -> npt.NDArray[np.float64]:
    """position * base^(-2i/dim) for i < dim/2: (P, dim/2) radians, in double precision."""
    frequencies = base ** (-np.arange(0, dim, 2, dtype=np.float64) / dim)
    return positions[:, None].astype(np.float64) * frequencies


def sinusoidal(positions: Ints, dim: int, base: float = 10000.0) -> Floats:
    """Sine in the even columns, cosine in the odd ones: (P, dim).

    Vaswani et al. 2017, "Attention Is All You Need", section 3.5 (arXiv 1706.03762).
    """
    angle = angles(positions, dim, base)
    table = np.empty((len(positions), dim), dtype=np.float32)
    table[:, 0::2] = np.sin(angle)
    table[:, 1::2] = np.cos(angle)[:, : dim // 2]
    return table


def rotary(positions: Ints, dim: int, base: float = 10000.0) -> tuple[Floats, Floats]:
    """Cosine and sine of the rotation of each pair of features: twice (P, dim/2).

    Su et al. 2021, "RoFormer" (arXiv 2104.09864), equation 34. Pair i is columns (2i, 2i+1) in
    the paper's layout and (i, i + dim/2) in the layout of GPT-NeoX and Llama.
    """
    angle = angles(positions, dim, base)
    return np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)


def alibi_slopes(heads: int) -> Floats:
    """The slope of each head: (H,).

    Press et al. 2021, "Train Short, Test Long" (arXiv 2108.12409): 2^(-8i/H) for a power of two;
    otherwise the slopes of the power of two below, then every second one of the power above.
    """
    below = 1 << (heads.bit_length() - 1)
    first = 2.0 ** (-8.0 * np.arange(1, below + 1) / below)
    between = 2.0 ** (-8.0 * np.arange(1, 2 * (heads - below), 2) / (2 * below))
    return np.concatenate([first, between]).astype(np.float32)


def alibi(positions: Ints, heads: int) -> Floats:
    """What is added to the attention scores, -slope * |query - key|: (H, P, P)."""
    distance = np.abs(positions[None, :] - positions[:, None]).astype(np.float32)
    bias: Floats = 0 - alibi_slopes(heads)[:, None, None] * distance
    return bias


def relative_buckets(
    positions: Ints, buckets: int = 32, max_distance: int = 128, bidirectional: bool = True
) -> Ints:
    """The bucket of key - query for every pair: (P, P) integers below `buckets`.

    Raffel et al. 2020, "T5" (arXiv 1910.10683), section 2.1: half of the buckets hold exact
    distances, the others grow logarithmically up to max_distance.
    """
    relative = positions[None, :] - positions[:, None]
    offset = np.zeros_like(relative)
    if bidirectional:
        buckets //= 2
        offset = np.where(relative > 0, buckets, 0)
        distance = np.abs(relative)
    else:
        distance = np.maximum(-relative, 0)
    exact = buckets // 2
    return offset + np.where(
        distance < exact, distance, _far(distance, exact, buckets, max_distance)
    )


def _far(distance: Ints, exact: int, buckets: int, max_distance: int) -> Ints:
    # In float32, as the reference models computed it: double rounds the borders differently.
    ratio = np.log(np.maximum(distance, 1).astype(np.float32) / np.float32(exact))
    scale = np.float32(np.log(max_distance / exact))
    far = exact + (ratio / scale * np.float32(buckets - exact)).astype(np.int64)
    clipped: Ints = np.minimum(far, buckets - 1)
    return clipped
