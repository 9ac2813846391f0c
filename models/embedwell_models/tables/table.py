"""Tables of vectors, whose rows are decoded when they are read.

N rows, D dimensions, n rows that are read at once.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from embedwell_models.neighbors import BLOCK, Rows
from embedwell_models.vectors import Floats

Array = npt.NDArray[Any]
Chosen = slice | npt.NDArray[np.int64]
"""The rows to read."""


class Table(Rows, Protocol):
    """Rows (N, D) of float32; those of an array of ids are a copy.

    A row is the same bits whatever others are read with it.
    """

    @property
    def width(self) -> int:
        """Number of dimensions."""
        ...


@dataclass(frozen=True)
class PlainTable:
    """Rows of numbers of any type. values: (N, D), of uint16 for the bits of bfloat16."""

    values: Array

    def __len__(self) -> int:
        return len(self.values)

    @property
    def width(self) -> int:
        """Number of dimensions."""
        return int(self.values.shape[1])

    def __getitem__(self, rows: Chosen) -> Floats:
        """Return some rows (n, D)."""
        return to_float32(self.values[rows])


@dataclass(frozen=True)
class SharedRows:
    """Ids that share the rows of another table. rows: (N,) the row of each id in it."""

    table: Table
    rows: Array

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def width(self) -> int:
        """Number of dimensions."""
        return self.table.width

    def __getitem__(self, rows: Chosen) -> Floats:
        """Return some rows (n, D)."""
        return self.table[self.rows[rows].astype(np.int64)]


@dataclass(frozen=True)
class ScaledTable:
    """The rows of another table, multiplied. scales: (N,), a number for each row."""

    table: Table
    scales: Array

    def __len__(self) -> int:
        return len(self.table)

    @property
    def width(self) -> int:
        """Number of dimensions."""
        return self.table.width

    def __getitem__(self, rows: Chosen) -> Floats:
        """Return some rows (n, D)."""
        return self.table[rows] * to_float32(self.scales[rows])[:, None]


def to_float32(values: Array) -> Floats:
    """Convert numbers, or the bits of bfloat16 as uint16, to float32."""
    if values.dtype == np.uint16:  # the upper half of a float32
        values = (values.astype("<u4") << 16).view("<f4")
    floats: Floats = values.astype(np.float32, copy=False)
    return floats


def blocks(table: Rows) -> Iterator[Floats]:
    """Yield the rows of a table, some at once."""
    for start in range(0, len(table), BLOCK):
        yield table[start : min(start + BLOCK, len(table))]
