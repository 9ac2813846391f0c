"""Tables of vectors and other matrices whose rows are decoded when they are read.

N rows, D dimensions, n rows that are read at once.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from embedwell_models.vectors import Floats

Array = npt.NDArray[Any]
Chosen = slice | npt.NDArray[np.int64]
"""The rows to read."""
TOO_LARGE = 2.0**40
"""Least number that only a damaged file has: products of such numbers exceed float32."""
BLOCK = 1 << 14
"""Number of rows that are in memory at once when all are read."""


class Rows(Protocol):
    """A table (N, D) that may be larger than the memory."""

    def __len__(self) -> int: ...

    def __getitem__(self, rows: Chosen) -> Floats:
        """Return some rows (n, D)."""
        ...


class Table(Rows, Protocol):
    """Rows (N, D) of float32; indexing with an array of ids returns a copy.

    A row is bit-identical whatever other rows are read with it.
    """

    @property
    def width(self) -> int:
        """Number of dimensions."""
        return int(self[:0].shape[1])


@dataclass(frozen=True)
class PlainTable(Table):
    """Table with rows of any type. values: (N, D); uint16 means the bits of bfloat16."""

    values: Array

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: Chosen) -> Floats:
        """Return some rows (n, D)."""
        return to_float32(self.values[rows])


@dataclass(frozen=True)
class SharedRows(Table):
    """Table whose ids share the rows of another table. rows: (N,) row of each id."""

    table: Table
    rows: Array

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, rows: Chosen) -> Floats:
        """Return some rows (n, D)."""
        return self.table[self.rows[rows].astype(np.int64)]


@dataclass(frozen=True)
class ScaledTable(Table):
    """Table of another table's rows times scales. scales: (N,), one for each row."""

    table: Table
    scales: Array

    def __len__(self) -> int:
        return len(self.table)

    def __getitem__(self, rows: Chosen) -> Floats:
        """Return some rows (n, D)."""
        return self.table[rows] * to_float32(self.scales[rows])[:, None]


def to_float32(values: Array) -> Floats:
    """Convert values to float32; uint16 means the bits of bfloat16."""
    if values.dtype == np.uint16:  # bfloat16 is the upper half of a float32
        values = (values.astype("<u4") << 16).view("<f4")
    floats: Floats = values.astype(np.float32, copy=False)
    return floats


def is_finite(numbers: Floats) -> bool:
    """Whether no number is NaN, infinity or TOO_LARGE."""
    # Minimum and maximum are NaN if any value is NaN. This is faster than isfinite on all values.
    return not numbers.size or bool(numbers.min() > -TOO_LARGE and numbers.max() < TOO_LARGE)


def blocks(table: Rows) -> Iterator[Floats]:
    """Yield the rows of a table in blocks."""
    for start in range(0, len(table), BLOCK):
        yield table[start : min(start + BLOCK, len(table))]


class QuantizedMatrix(ABC):
    """Matrix (N, D) that is stored quantised."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """N, D."""

    @property
    def ndim(self) -> int:
        return 2

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def width(self) -> int:
        """Number of dimensions."""
        return self.shape[1]

    @abstractmethod
    def __getitem__(self, rows: Chosen) -> Floats:
        """Return some rows (n, D) as float32."""

    @abstractmethod
    def rows(self, start: int, stop: int) -> "QuantizedMatrix":
        """Return consecutive rows as they are stored."""

    @abstractmethod
    def to_float32(self) -> Floats:
        """Decode all rows (N, D)."""

    @abstractmethod
    def is_finite(self) -> bool:
        """Whether no number is NaN or infinity."""


Stored = Array | QuantizedMatrix
"""Numbers as a file holds them; uint16 means the bits of bfloat16."""


def decoded(numbers: Stored) -> Floats:
    """Return stored numbers as float32; no copy if they are stored so."""
    return numbers.to_float32() if isinstance(numbers, QuantizedMatrix) else to_float32(numbers)
