"""Quantisation of weights to 8-bit integers or 16 levels, and the input magnitudes that it needs.

N outputs, K inputs.

Inputs and weights of linear layers in int8 are rotated, as in kernels/rows.h: Hadamard matrices mix
each four neighbours, and units of 16 numbers in the longest parts of a power of two of units that
fill a row. So numbers that are much larger than the others are spread out (QuaRot, arXiv
2404.00456). The product of two rotated rows is that of the rows, times how many numbers are mixed.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from embedwell_models.encoder.encoder import Encoder
from embedwell_models.vectors import MAX_UNTHREADED_PRODUCT, Floats

QUANTIZED = ("int8", "int4")
"""Precisions whose products are those of 8-bit integers."""

Levels = NDArray[np.int8]
"""16 ascending integers that weights of four bits are rounded to."""

Magnitudes = Mapping[str, Floats]
"""Magnitude of each input (K,) of linear layers, by the layer's name, such as 'layers.0.up'."""

# SmoothQuant's migration strength: the share of the inputs' spread that moves to the weights. Tuned
# by the cosines of pooled vectors. Rounding errors of weights are the same for every token, so they
# do not average out in a pooled text, least of all in layers that write to the residual stream.
_ALPHAS = {"qkv": 0.5, "down": 0.3}
_ALPHA = 0.4  # strength of the other layers
_FEW = 16  # rows; fewer reach some experts, and say too little of single inputs
_MASSIVE = 50.0  # times the median input; 28 in all-MiniLM-L6-v2, 116 in all-mpnet-base-v2
_BLOCK = 1 << 16  # numbers of a weight that stay in a cache as float64 while they are computed with

# The 16 levels with the least mean square error for a normal distribution, whose standard deviation
# is 1 (Max 1960, "Quantizing for Minimum Distortion"): those above zero. Rotated weights are nearly
# normal (HIGGS, Malinovskii et al. 2024, arXiv 2411.17525).
_NORMAL_LEVELS = (0.1284, 0.3881, 0.6568, 0.9424, 1.2562, 1.6181, 2.0691, 2.7326)


@dataclass
class Calibration:
    """Source of the magnitudes that int8 needs.

    run: runs reference inputs through an encoder that observes its inputs. magnitudes: those of an
    earlier load, or what the first int8 encoder has measured; None before.
    """

    run: Callable[[Encoder], object]
    magnitudes: Magnitudes | None = None


class InputObserver:
    """Memory in which the kernels sum up the inputs of linear layers, on one thread."""

    def __init__(self) -> None:
        self._sums: dict[str, NDArray[np.float64]] = {}

    def address(self, name: str, width: int) -> int:
        """Return the address of a layer's sums of fourth powers (K,) and its number of rows."""
        return self._sums.setdefault(name, np.zeros(width + 1)).ctypes.data

    def magnitudes(self) -> Magnitudes:
        """Return the fourth root of the inputs' mean fourth power for each layer: name -> (K,).

        Rare large inputs count more than in a mean of squares. No single input decides, as it would
        in a maximum. The fewer rows a layer has had, the more its inputs count as equally large.
        """
        return {name: _fourth_root_of_mean(sums) for name, sums in self._sums.items()}


def _fourth_root_of_mean(sums: NDArray[np.float64]) -> Floats:
    powers, rows = sums[:-1], sums[-1]
    missing = max(_FEW - rows, 0) * powers.mean() / max(rows, 1)  # rows of the inputs' mean
    means: NDArray[np.float64] = (powers + missing) / max(rows, _FEW)
    return (means**0.25).astype(np.float32)


def has_massive_activations(magnitudes: Magnitudes) -> bool:
    """Whether one input of a network's second product is far larger than the others.

    Such a network gives single tokens massive activations (Sun et al. 2024, arXiv 2402.17762).
    Which tokens have them may depend on errors as small as those of int8.
    """
    seconds = [sizes[sizes > 0] for name, sizes in magnitudes.items() if name.endswith(".down")]
    return any(len(sizes) and sizes.max() > _MASSIVE * np.median(sizes) for sizes in seconds)


@dataclass(frozen=True)
class QuantizedWeight:
    """Rotated weight in 8-bit integers with its scales.

    weight: (N, K). scales, sums: (N,), one for each row. smoothing: (K,), factors of the inputs
    before their rotation.
    """

    weight: NDArray[np.int8]
    scales: Floats
    smoothing: Floats

    @property
    def sums(self) -> NDArray[np.int32]:
        sums: NDArray[np.int32] = self.weight.sum(axis=1, dtype=np.int32)
        return sums


def four_bit_levels(short_sums: bool) -> Levels:
    """Return the levels of weights of four bits. short_sums: see quantize_weight."""
    above = np.array(_NORMAL_LEVELS) * ((64 if short_sums else 127) / _NORMAL_LEVELS[-1])
    levels: Levels = np.rint(np.concatenate([-above[::-1], above])).astype(np.int8)
    return levels


def quantize_weight(
    weight: Floats,
    input_magnitudes: Floats,
    name: str,
    short_sums: bool = False,
    levels: Levels | None = None,
) -> QuantizedWeight:
    """Quantise a float32 weight (N, K) with one scale per row (SmoothQuant, arXiv 2211.10438).

    input_magnitudes: (K,). A large magnitude divides the input and multiplies the weight, so that
    both are easy to round; then both are rotated. name: name of the linear layer, such as
    'layers.0.up'. short_sums: whether the kernels add two neighbouring products in 16 bits. The sum
    of two neighbours then is from -128 to 128, because inputs are up to 255. levels: the integers
    to round to; None for all.
    """
    alpha = _ALPHAS.get(name.rpartition(".")[2], _ALPHA)
    inputs = np.maximum(input_magnitudes.astype(np.float64), 1e-5)
    exact = np.maximum(inputs**alpha / _column_magnitudes(weight) ** (1 - alpha), 1e-5)
    factors: Floats = exact.astype(np.float32) * signs(weight.shape[1])
    rounded, scales = np.empty(weight.shape, np.int8), np.empty(len(weight), np.float32)
    for rows in _blocks(weight):
        smooth = rotate(weight[rows] * (factors / np.float32(mixed(weight.shape[1]))))
        if levels is None:
            scales[rows] = _scales(smooth, short_sums)
            rounded[rows] = np.rint(smooth / scales[rows, None])
        else:
            rounded[rows], scales[rows] = _nearest_levels(smooth, levels)
    return QuantizedWeight(rounded, scales, np.reciprocal(factors))


def _scales(smooth: Floats, short_sums: bool) -> Floats:
    largest = np.abs(smooth).max(axis=1)
    if short_sums:
        largest = np.maximum(largest, np.abs(smooth[:, ::2] + smooth[:, 1::2]).max(axis=1))
    scales: Floats = np.maximum(largest, np.float32(1e-30)) / np.float32(127)
    return scales


def _nearest_levels(smooth: Floats, levels: Levels) -> tuple[NDArray[np.int8], Floats]:
    # The integers for a normal distribution, and then the scales with the least mean square error.
    largest = int(levels[-1])
    middles = np.arange(-largest, largest) + 0.5  # of the intervals between integers
    nearest = levels[np.abs(middles[:, None] - levels).argmin(axis=1)]
    steps = smooth.std(axis=1, keepdims=True) * np.float32(_NORMAL_LEVELS[-1] / largest)
    intervals = np.floor(smooth / np.maximum(steps, np.float32(1e-30)))
    rounded = nearest[intervals.clip(-largest, largest - 1).astype(np.int16) + largest]
    floats = rounded.astype(np.float32)
    return rounded, np.vecdot(smooth, floats) / np.vecdot(floats, floats)


def _column_magnitudes(weight: Floats) -> NDArray[np.float64]:
    # A row with a large norm is rounded in large steps, and writes an outlier to the residual
    # stream that dominates the next norm. Columns that are large in such rows must not grow.
    sums = np.zeros(weight.shape[1])
    for rows in _blocks(weight):
        squares = np.square(weight[rows], dtype=np.float64)
        sums += np.sqrt(squares.sum(axis=1)) @ squares
    return np.maximum(np.sqrt(sums / len(weight)), 1e-5)


def _blocks(weight: Floats) -> Iterator[slice]:
    size = max(_BLOCK // weight.shape[1], 1)
    return (slice(start, start + size) for start in range(0, len(weight), size))


_NEIGHBOURS, _UNIT = 4, 16


def mixed(width: int) -> int:
    """Return how many numbers of a row are mixed with each other; the width is a multiple of 16."""
    return _NEIGHBOURS * _units(width)


def rotate(rows: Floats) -> Floats:
    """Rotate rows (N, K); K is a multiple of 16."""
    units = _units(rows.shape[1])
    fours = np.kron(np.eye(_UNIT // _NEIGHBOURS, dtype=np.float32), hadamard(_NEIGHBOURS))
    mixed_fours = rows.reshape(-1, 1, units, _UNIT) @ fours
    rows_at_once = min(units, MAX_UNTHREADED_PRODUCT // (units * _UNIT))  # of the matrix
    rotated: Floats = hadamard(units).reshape(-1, rows_at_once, units) @ mixed_fours
    return rotated.reshape(rows.shape)


def _units(width: int) -> int:
    units = width // _UNIT
    return units & -units


@cache
def hadamard(size: int) -> Floats:
    """Return Sylvester's Hadamard matrix (size, size); size is a power of two."""
    matrix = np.ones((1, 1), np.float32)
    while len(matrix) < size:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    return matrix


def signs(width: int) -> Floats:
    """Return the signs of a row's numbers before its rotation (width,): Rudin and Shapiro's.

    No row of a Hadamard matrix is like them. So a mean that all numbers share is spread, too.
    """
    units = np.arange(-(-width // _UNIT))
    ones = np.bitwise_count(units & units >> 1)
    repeated: Floats = np.where(ones % 2, np.float32(-1), np.float32(1)).repeat(_UNIT)
    return repeated[:width]
