"""Outputs of one text: a dense vector, a sparse vector, and a vector for each token."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from embedwell_models.vectors import Floats

_HEADER = 4  # numbers in a packed record that hold the sizes of its parts


@dataclass(frozen=True, slots=True)
class SparseVector:
    """Sparse vector over a vocabulary of V tokens: its non-zero weights.

    indices: (n,) in ascending order. weights: (n,).
    """

    indices: npt.NDArray[np.int32]
    weights: Floats

    @classmethod
    def of(cls, weights: Floats) -> "SparseVector":
        """Keep the non-zero weights: (V,) -> (n,)."""
        indices = np.flatnonzero(weights).astype(np.int32)
        return cls(indices, weights[indices])


def common_entries(vectors: Sequence[SparseVector]) -> npt.NDArray[np.int32]:
    """Return the entries that at least one vector has, in ascending order: (entries,)."""
    return np.unique(np.concatenate([vector.indices for vector in vectors]))


def over_entries(vectors: Sequence[SparseVector], entries: npt.NDArray[np.int32]) -> Floats:
    """Convert vectors to dense rows (B, entries). entries: see `common_entries`."""
    columns = np.searchsorted(entries, np.concatenate([vector.indices for vector in vectors]))
    rows = np.repeat(np.arange(len(vectors)), [len(vector.indices) for vector in vectors])
    matrix = np.zeros((len(vectors), len(entries)), dtype=np.float32)
    matrix[rows, columns] = np.concatenate([vector.weights for vector in vectors])
    return matrix


@dataclass(frozen=True, slots=True)
class TextOutputs:
    """Outputs of one text; None for outputs that were not requested.

    dense: (D,), not normalised. multi: (rows, width), a vector for each token.
    """

    dense: Floats | None = None
    sparse: SparseVector | None = None
    multi: Floats | None = None

    def pack(self) -> Floats:
        """Concatenate all numbers to one column (N, 1), the input of `unpack`."""
        empty = np.empty(0, dtype=np.float32)
        dense = empty if self.dense is None else self.dense
        sparse = SparseVector.of(empty) if self.sparse is None else self.sparse
        multi = np.empty((0, 0), dtype=np.float32) if self.multi is None else self.multi
        header = [len(dense), -1 if self.sparse is None else len(sparse.indices), *multi.shape]
        # An index is exact as a float32, because no vocabulary has 2^24 tokens.
        parts = [np.array(header), dense, sparse.indices, sparse.weights, multi.ravel()]
        return np.concatenate([part.astype(np.float32) for part in parts])[:, None]

    @classmethod
    def unpack(cls, packed: Floats) -> "TextOutputs":
        """Restore the outputs from a packed column (N, 1); the arrays are views of it."""
        flat = packed.ravel()
        dim, count, rows, width = map(int, flat[:_HEADER])
        sizes = [_HEADER, dim, max(count, 0), max(count, 0)]
        _, dense, indices, weights, multi = np.split(flat, np.cumsum(sizes))
        sparse = SparseVector(indices.astype(np.int32), weights)
        return cls(
            dense if dim else None,
            None if count < 0 else sparse,
            multi.reshape(rows, width) if width else None,
        )
