"""Compressed tables: rows of codes, rows that share a pool, and tiers of rows of several widths."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from embedwell_models.checkpoint.tables import (
    CODEBOOKS,
    CODES,
    DIRECTIONS,
    IMPORTANCE,
    POOL,
    PREFIX,
    TIER,
    Array,
    Chosen,
    Table,
    to_float32,
)
from embedwell_models.errors import ModelError
from embedwell_models.vectors import Floats

CODEBOOK_SIZE = 256
"""Maximum number of vectors in a codebook, because a code is one byte."""


@dataclass(frozen=True)
class CodedTable(Table):
    """Table of product quantisation: a row is M bytes, each an index into a codebook.

    codes: (N, M) uint8. codebooks: (M, K, D / M) float32. Jégou et al. 2011, "Product quantization
    for nearest neighbor search".

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


Ids = npt.NDArray[np.int64]
_INCREMENT = np.uint64(0x9E3779B97F4A7C15)
_MULTIPLIERS = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_SHIFTS = np.uint64(30), np.uint64(27), np.uint64(31)


@dataclass(frozen=True)
class HashedTable(Table):
    """Table of hash embeddings: a row is a weighted sum of two rows of a pool.

    Hashes of its id choose them. pool: (B, D) float32. importance: (N, 2) weights. Svenstrup et al.
    2017 (arXiv 1709.03933), "Hash embeddings for efficient word representations".
    """

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


@dataclass(frozen=True)
class Tier:
    """Consecutive rows. values: (n, d). directions: (d, D); None if d is D."""

    values: Array
    directions: Floats | None

    @property
    def width(self) -> int:
        """Number of dimensions of the table."""
        return int((self.values if self.directions is None else self.directions).shape[1])

    def read(self, rows: Chosen) -> Floats:
        """Return some rows (n, D)."""
        values = to_float32(self.values[rows])
        if self.directions is None:
            return values
        # One product for each row: a product of several rows may sum in an order that depends on
        # their number.
        projected: Floats = np.matmul(values[:, None], self.directions)[:, 0]
        return projected


@dataclass(frozen=True)
class TieredTable(Table):
    """Table with the rows of several tiers, one tier after another.

    Rows of rare words are narrower, and projected to the full width. Baevski and Auli 2018 (arXiv
    1809.10853), "Adaptive input representations for neural language modeling".
    """

    tiers: Sequence[Tier]

    def __len__(self) -> int:
        return sum(len(tier.values) for tier in self.tiers)

    @property
    def width(self) -> int:
        """Number of dimensions."""
        return self.tiers[0].width

    def __getitem__(self, rows: Chosen) -> Floats:
        """Return some rows (n, D)."""
        ids = np.arange(*rows.indices(len(self))) if isinstance(rows, slice) else rows
        vectors = np.empty((len(ids), self.width), np.float32)
        ends = [*accumulate(len(tier.values) for tier in self.tiers)]
        tier_of_ids = np.searchsorted(ends, ids, side="right")
        for index, tier in enumerate(self.tiers):
            here = np.flatnonzero(tier_of_ids == index)
            if here.size:
                vectors[here] = tier.read(ids[here] - (ends[index] - len(tier.values)))
        return vectors


def build(parts: Mapping[str, Array]) -> Table:
    """Build a table from its parts, by the names of `stored`; parts may be mapped.

    Raises ModelError for inconsistent parts.
    """
    if f"{TIER}0" in parts:
        return _tiered(parts)
    return _hashed(parts) if POOL in parts else _coded(parts)


def _coded(parts: Mapping[str, Array]) -> CodedTable:
    codes, codebooks = _required(parts, CODES), _required(parts, CODEBOOKS)
    fits = codes.ndim == 2 and codebooks.ndim == 3 and codes.shape[1] == len(codebooks)
    if codes.dtype != np.uint8 or not fits or codebooks.shape[1] > CODEBOOK_SIZE:
        raise ModelError(
            f"codes of {codes.dtype} and shape {codes.shape}, and codebooks of shape "
            f"{codebooks.shape}: a row needs a byte for each codebook"
        )
    return CodedTable(codes, np.array(to_float32(codebooks)))


def _tiered(parts: Mapping[str, Array]) -> TieredTable:
    count = sum(name.startswith(TIER) for name in parts)
    tiers = []
    for index in range(count):
        values = _required(parts, f"{TIER}{index}")
        directions = parts.get(f"{DIRECTIONS}{index}")
        if values.ndim != 2 or (directions is not None and len(directions) != values.shape[1]):
            raise ModelError(f"the numbers of tier {index} do not fit its directions")
        tiers.append(Tier(values, None if directions is None else np.array(to_float32(directions))))
    if len({tier.width for tier in tiers}) > 1:
        raise ModelError(f"tiers of different widths: {[tier.width for tier in tiers]}")
    return TieredTable(tiers)


def _hashed(parts: Mapping[str, Array]) -> HashedTable:
    pool, importance = parts[POOL], _required(parts, IMPORTANCE)
    if pool.ndim != 2 or len(pool) < 2 or importance.shape[1:] != (2,):
        raise ModelError(
            f"a pool of shape {pool.shape} and importance of shape {importance.shape}: a row is a "
            "sum of two rows of the pool"
        )
    return HashedTable(to_float32(pool), importance)


def _required(parts: Mapping[str, Array], name: str) -> Array:
    if name not in parts:
        raise ModelError(f"the checkpoint lacks the table's {name.removeprefix(PREFIX)}")
    return parts[name]
