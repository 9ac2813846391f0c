"""Product quantisation: a row is a few bytes, each the number of a vector in a codebook.

Jégou et al. 2011, "Product quantization for nearest neighbor search".
"""

from dataclasses import dataclass

import numpy as np

from embedwell_models.tables.table import Array, Chosen
from embedwell_models.vectors import Floats

CODEBOOK_SIZE = 256
"""The most vectors of a codebook: a code is a byte."""


@dataclass(frozen=True)
class CodedTable:
    """Rows of M codes. codes: (N, M) of uint8. codebooks: (M, K, D / M) of float32.

    A slice of a row is every M-th of its numbers: codebooks[m][code m] are the numbers m, M + m,
    2 M + m and so on. So a slice has its part of all dimensions where these come in an order, as
    principal components do.
    """

    codes: Array
    codebooks: Floats

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def width(self) -> int:
        """Number of dimensions."""
        slices, _, width = self.codebooks.shape
        return int(slices * width)

    def __getitem__(self, rows: Chosen) -> Floats:
        """Return some rows (n, D)."""
        slices, size, width = self.codebooks.shape
        places = self.codes[rows] + np.arange(0, slices * size, size)
        vectors: Floats = self.codebooks.reshape(-1, width).take(places, axis=0)
        return vectors.swapaxes(1, 2).reshape(len(places), slices * width)
