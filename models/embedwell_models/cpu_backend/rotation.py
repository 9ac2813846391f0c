"""Rotation of the inputs and weights of linear layers in int8, as in kernels/rows.h.

Hadamard matrices mix each four neighbours, and units of 16 numbers in the longest parts of a power
of two of units that fill a row. So numbers that are much larger than the others are spread out
(QuaRot, arXiv 2404.00456). The product of two rotated rows is that of the rows, times how many
numbers are mixed.
"""

from functools import cache

import numpy as np

from embedwell_models.vectors import MAX_UNTHREADED_PRODUCT, Floats

_FEW, _UNIT = 4, 16


def mixed(width: int) -> int:
    """Return how many numbers of a row are mixed with each other; the width is a multiple of 16."""
    return _FEW * _units(width)


def rotate(rows: Floats) -> Floats:
    """Rotate rows (N, K); K is a multiple of 16."""
    units = _units(rows.shape[1])
    fours = np.kron(np.eye(_UNIT // _FEW, dtype=np.float32), hadamard(_FEW))
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
