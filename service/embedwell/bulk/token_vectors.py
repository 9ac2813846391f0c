"""Vectors of inputs: one for each, or one for each token of each."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from embedwell_models.vectors import Floats


@dataclass(frozen=True)
class TokenVectors:
    """Vectors of the tokens of B inputs, (n, dim) for each; an input may have none."""

    each: Sequence[Floats]
    dim: int

    def __getitem__(self, chosen: npt.NDArray[np.intp] | Sequence[bool]) -> "TokenVectors":
        """Return those of some inputs, by their indices or by a mask, as an array does."""
        indices = np.arange(len(self.each))[chosen]
        return TokenVectors([self.each[index] for index in indices], self.dim)

    @property
    def rows(self) -> Floats:
        """The vectors of all inputs, one input after another: (N, dim)."""
        return np.concatenate([np.empty((0, self.dim), np.float32), *self.each])

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Number of vectors of each input: (B,)."""
        return np.array([len(vectors) for vectors in self.each], np.int64)


Vectors: TypeAlias = Floats | TokenVectors
"""A vector of each of B inputs (B, dim), or vectors of their tokens."""
