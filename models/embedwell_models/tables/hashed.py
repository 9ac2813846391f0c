"""Hash embeddings: a row is the weighted sum of two pool rows, chosen by hashes of its id.

Svenstrup et al. 2017 (arXiv 1709.03933), "Hash embeddings for efficient word representations".
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from embedwell_models.tables.table import Array, Chosen, Table, to_float32
from embedwell_models.vectors import Floats

Ids = npt.NDArray[np.int64]
_INCREMENT = np.uint64(0x9E3779B97F4A7C15)
_MULTIPLIERS = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_SHIFTS = np.uint64(30), np.uint64(27), np.uint64(31)


@dataclass(frozen=True)
class HashedTable(Table):
    """Table whose rows share a pool. pool: (B, D) float32. importance: (N, 2) weights."""

    pool: Floats
    importance: Array

    def __len__(self) -> int:
        return len(self.importance)

    def __getitem__(self, rows: Chosen) -> Floats:
        """Return some rows (n, D)."""
        ids = np.arange(*rows.indices(len(self))) if isinstance(rows, slice) else rows
        first, second = pool_rows(ids, len(self.pool))
        importance = to_float32(self.importance[rows])
        vectors: Floats = self.pool[first] * importance[:, :1]
        vectors += self.pool[second] * importance[:, 1:]
        return vectors


def pool_rows(ids: Ids, size: int) -> tuple[Ids, Ids]:
    """Return the indices of two different pool rows for each id: (n,), (n,). size: B."""
    first = _hash(2 * ids) % np.uint64(size)
    step = _hash(2 * ids + 1) % np.uint64(size - 1)
    second = (first + step + np.uint64(1)) % np.uint64(size)
    return first.astype(np.int64), second.astype(np.int64)


def _hash(numbers: Ids) -> npt.NDArray[np.uint64]:
    # SplitMix64 (Steele et al. 2014): sums and products are modulo 2 ** 64.
    values = (numbers.astype(np.uint64) + np.uint64(1)) * _INCREMENT
    for shift, multiplier in zip(_SHIFTS, _MULTIPLIERS, strict=False):
        values = (values ^ (values >> shift)) * multiplier
    return values ^ (values >> _SHIFTS[-1])
