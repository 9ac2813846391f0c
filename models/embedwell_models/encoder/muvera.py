"""MUVERA: one vector for all token vectors of a text, whose products approximate MaxSim.

Dhulipala et al. 2024, arXiv 2405.19504; the numbers are those of fastembed's `Muvera`. T tokens,
D dimensions, R repetitions, C clusters.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from embedwell_models.errors import InputError
from embedwell_models.outputs.names import MUVERA_LIMITS
from embedwell_models.vectors import Doubles, Floats

MAX_DIMENSIONS = 1 << 16
"""Largest number of dimensions of an encoding."""


@dataclass(frozen=True)
class Muvera:
    """Fixed-dimensional encodings (FDE) of token vectors (T, dim).

    k_sim: number of hyperplanes, which part the space into 2 ** k_sim clusters. dim_proj:
    dimensions of a cluster, at most those of a token. r_reps: repetitions with other hyperplanes.
    seed: of the random numbers. Encodings of queries and documents need the same options.

    Raises InputError for an option that is too small or too large.
    """

    dim: int
    k_sim: int = 5
    dim_proj: int = 16
    r_reps: int = 20
    seed: int = 42

    def __post_init__(self) -> None:
        for name, largest in MUVERA_LIMITS.items():
            most = min(largest, self.dim) if name == "dim_proj" else largest
            if not 1 <= getattr(self, name) <= most:
                raise InputError(
                    f"{name} is {getattr(self, name)}; give a number from 1 to {most}",
                    param="muvera",
                )
        if self.dimensions > MAX_DIMENSIONS:
            raise InputError(
                f"r_reps * 2 ** k_sim * dim_proj is {self.dimensions}, but an encoding has at most "
                f"{MAX_DIMENSIONS} dimensions; lower one of them",
                param="muvera",
            )

    @property
    def dimensions(self) -> int:
        """The dimensions of an encoding."""
        return self.r_reps * (1 << self.k_sim) * self.dim_proj

    def query(self, vectors: Floats) -> Floats:
        """Encode a query: the sum of its vectors in each cluster: (T, D) -> (dimensions,)."""
        return self._encode(vectors, fills=False)

    def document(self, vectors: Floats) -> Floats:
        """Encode a document: the mean of its vectors in each cluster: (T, D) -> (dimensions,).

        A cluster without vectors has the first vector of the cluster whose number differs in the
        fewest bits.
        """
        return self._encode(vectors, fills=True)

    def operations(self, tokens: int) -> int:
        """Return the number of multiplications of an encoding."""
        return tokens * self.dim * self.r_reps * (self.k_sim + self.dim_proj) + self.dimensions

    def _encode(self, vectors: Floats, *, fills: bool) -> Floats:
        planes, projections = _random_matrices(self)
        doubles = vectors.astype(np.float64)
        bits = (doubles @ planes > 0).reshape(len(vectors), self.r_reps, self.k_sim)
        clusters = bits @ (1 << np.arange(self.k_sim))
        blocks = np.zeros((self.r_reps, 1 << self.k_sim, self.dim_proj))
        for index, block in enumerate(blocks if len(vectors) else ()):
            rows = doubles
            if projections:
                rows = doubles @ projections[index] / np.sqrt(self.dim_proj)
            self._fill(block, rows, clusters[:, index], fills=fills)
        return blocks.ravel().astype(np.float32)

    def _fill(
        self, block: Doubles, rows: Doubles, clusters: npt.NDArray[np.intp], *, fills: bool
    ) -> None:
        """Sum or average the rows of each cluster: (T, dim_proj) -> (C, dim_proj)."""
        numbers, firsts, counts = np.unique(clusters, return_index=True, return_counts=True)
        sums = np.add.reduceat(rows[clusters.argsort(kind="stable")], counts.cumsum() - counts)
        if fills:
            block[:] = rows[firsts[self._distances[:, numbers].argmin(axis=1)]]
            sums /= counts[:, None]
        block[numbers] = sums

    @cached_property
    def _distances(self) -> npt.NDArray[np.uint8]:
        """The number of different bits of each pair of clusters: (C, C)."""
        numbers = np.arange(1 << self.k_sim)
        counts: npt.NDArray[np.uint8] = np.bitwise_count(numbers[:, None] ^ numbers)
        return counts


@lru_cache(maxsize=4)
def _random_matrices(options: Muvera) -> tuple[Doubles, list[npt.NDArray[np.int8]]]:
    """Draw the hyperplanes of all repetitions (D, R * k_sim), and the projection of each.

    A projection is (D, dim_proj) of 1 and -1. There are none if a cluster has all dimensions.
    """
    generator, dim = np.random.default_rng(options.seed), options.dim
    repetitions = range(options.r_reps)
    planes = [generator.normal(size=(dim, options.k_sim)) for _ in repetitions]
    size, projects = (dim, options.dim_proj), options.dim_proj < dim
    signs = [generator.choice([-1, 1], size=size).astype(np.int8) for _ in repetitions if projects]
    return np.concatenate(planes, axis=1), signs
