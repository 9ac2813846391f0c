"""Projection of a table to fewer dimensions, and 8-bit quantisation of its rows.

V rows, D dimensions.
"""

import numpy as np
import numpy.typing as npt

from embedwell_models.errors import ModelError
from embedwell_models.tables.table import Rows, blocks
from embedwell_models.vectors import Doubles, Floats

Integers8 = npt.NDArray[np.int8]


def principal_directions(table: Rows, dimensions: int) -> Floats:
    """Return the directions with the largest sums of squares: (D, dimensions), orthonormal.

    Among projections to as many dimensions, this one preserves inner products best (Eckart and
    Young 1936). The mean is not subtracted. Raises ModelError for more dimensions than the table
    has.
    """
    width = table[:1].shape[1]
    if not 0 < dimensions <= width:
        raise ModelError(f"{dimensions} dimensions are not possible; the table has {width}")
    products: Doubles = np.zeros((width, width))
    for block in blocks(table):
        doubles = block.astype(np.float64)
        products += doubles.T @ doubles
    directions = np.linalg.eigh(products).eigenvectors[:, ::-1]
    first: Floats = directions[:, :dimensions].astype(np.float32)
    return first


def quantize_rows(rows: Floats) -> tuple[Integers8, Floats]:
    """Quantise rows (V, D) to integers (V, D) and scales (V,): the largest absolute value / 127."""
    scales = np.abs(rows).max(axis=1, initial=0) / np.float32(127)
    divisors = np.where(scales == 0, np.float32(1), scales)
    return np.rint(rows / divisors[:, None]).astype(np.int8), scales.astype(np.float32)
