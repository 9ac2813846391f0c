"""Tables with tiers: rows of rare words are narrower, and projected to the full width.

Baevski and Auli 2018 (arXiv 1809.10853), "Adaptive input representations for neural language
modeling".
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from embedwell_models.tables.table import Array, Chosen, Table, to_float32
from embedwell_models.vectors import Floats


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
    """Table with the rows of several tiers, one tier after another."""

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
