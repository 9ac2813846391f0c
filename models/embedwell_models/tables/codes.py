"""Product quantisation: a row is a few bytes, each an index into a codebook.

Jégou et al. 2011, "Product quantization for nearest neighbor search".
"""

from dataclasses import dataclass

import numpy as np

from embedwell_models.tables.table import Array, Chosen, Table
from embedwell_models.vectors import Floats

CODEBOOK_SIZE = 256
"""Maximum number of vectors in a codebook, because a code is one byte."""


@dataclass(frozen=True)
class CodedTable(Table):
    """Table whose rows are M codes. codes: (N, M) uint8. codebooks: (M, K, D / M) float32.

    A slice of a row is every M-th number: codebooks[m][code m] holds the numbers m, M + m, 2 M + m
    and so on. If dimensions are ordered, as principal components are, every slice then has a share
    of all.
    """

    codes: Array
    codebooks: Floats

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: Chosen) -> Floats:
        """Return some rows (n, D)."""
        slices, size, width = self.codebooks.shape
        places = self.codes[rows] + np.arange(0, slices * size, size)
        vectors: Floats = self.codebooks.reshape(-1, width).take(places, axis=0)
        return vectors.swapaxes(1, 2).reshape(len(places), slices * width)
