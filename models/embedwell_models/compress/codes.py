"""Product quantisation of a table: codebooks by k-means, and the codes of its rows.

V rows, D dimensions, M slices of a row, K vectors of a codebook. Jégou et al. 2011, "Product
quantization for nearest neighbor search".
"""

import numpy as np
import numpy.typing as npt

from embedwell_models.compress.kmeans import centroids, nearest_centroids
from embedwell_models.errors import ModelError
from embedwell_models.tables.codes import CODEBOOK_SIZE
from embedwell_models.vectors import Floats

_SAMPLE = 1 << 15  # rows that the codebooks are computed from
Codes = npt.NDArray[np.uint8]


def product_quantize(rows: Floats, slices: int) -> tuple[Codes, Floats]:
    """Return the codes (V, M) and codebooks (M, K, D / M) that approximate rows (V, D).

    The result is deterministic on one machine. Raises ModelError unless M divides D.
    """
    count, width = rows.shape
    if width % slices:
        divisors = [n for n in range(1, width + 1) if width % n == 0]
        raise ModelError(
            f"{slices} codes do not divide {width} dimensions; choose one of {divisors}"
        )
    generator = np.random.default_rng(0)
    sample = rows
    if count > _SAMPLE:
        sample = rows[np.sort(generator.choice(count, _SAMPLE, replace=False))]
    codes = np.empty((count, slices), np.uint8)
    codebooks = []
    for index in range(slices):
        part = np.ascontiguousarray(sample[:, index::slices])
        codebooks.append(centroids(part, CODEBOOK_SIZE, generator))
        codes[:, index] = nearest_centroids(rows[:, index::slices], codebooks[-1])[0]
    return codes, np.stack(codebooks)
