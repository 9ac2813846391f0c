"""Tables of vectors and other matrices of checkpoints, whose rows are decoded when they are read.

N rows, D dimensions, n rows that are read at once. A file holds a table as one or several parts.
"""

import pkgutil
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from embedwell_models.errors import ModelError
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


@dataclass(frozen=True)
class LayerMatrix(QuantizedMatrix):
    """Matrix (N, D) that is decoded as a whole whenever it is read, so that no copy stays.

    name: the layer's, for messages. size: N, D.
    """

    name: str
    size: tuple[int, int]
    decode: Callable[[], Floats]

    @property
    def shape(self) -> tuple[int, int]:
        """N, D."""
        return self.size

    def __getitem__(self, rows: Chosen) -> Floats:
        """Return some rows (n, D) as float32."""
        return self.to_float32()[rows]

    def rows(self, start: int, stop: int) -> "LayerMatrix":
        """Return consecutive rows as they are stored."""
        size = (stop - start, self.width)
        return LayerMatrix(self.name, size, lambda: self.to_float32()[start:stop])

    def to_float32(self) -> Floats:
        """Decode all rows (N, D); raises ModelError if the parts do not fit together."""
        try:
            decoded = self.decode()
        except (ValueError, IndexError) as error:
            raise ModelError(f"{self.name}: its parts do not fit: {error}") from None
        if decoded.shape != self.size:
            raise ModelError(f"{self.name}: its parts have the shapes of {decoded.shape}")
        return decoded

    def is_finite(self) -> bool:
        """Whether no number is NaN, infinity or TOO_LARGE."""
        return is_finite(self.to_float32())


TABLE, ROWS, SCALES = "token_table", "token_rows", "token_scales"
CODES, CODEBOOKS = "token_codes", "token_codebooks"
POOL, IMPORTANCE = "token_pool", "token_importance"
TIER, DIRECTIONS = "token_tier", "token_directions"
"""Name format with the number of the tier, from 0."""
PREFIX = "token_"
_COMPRESSED = re.compile(r"token_(codes|codebooks|tier\d+|directions\d+|pool|importance)")

_BUILD = "embedwell_classic.compressed_tables:build"
"""Function that builds a table from compressed parts."""


def is_part(name: str) -> bool:
    """Whether our name of a tensor names a part of a table."""
    return name in (TABLE, ROWS, SCALES) or bool(_COMPRESSED.fullmatch(name))


def is_table(tensors: Collection[str]) -> bool:
    """Whether a model has no tensors, by our names, but a table of token vectors."""
    return {*tensors} <= {TABLE}


@dataclass(frozen=True)
class TensorNames:
    """Names of a family's tensors; all other parts are named 'stem.codes' and so on.

    rows: name of the row indices; None for a family whose ids share no rows.
    """

    stem: str
    table: str
    scales: str
    rows: str | None = None

    def ours(self, names: Iterable[str]) -> dict[str, str]:
        """Return name in the file -> our name, for the tensors that are parts of a table."""
        return {name: ours for name in names if (ours := self._ours(name))}

    def theirs(self, part: str) -> str:
        """Return the name in a file of a part with our name."""
        plain = {TABLE: self.table, SCALES: self.scales}
        return plain.get(part, f"{self.stem}.{part.removeprefix(PREFIX)}")

    def _ours(self, name: str) -> str | None:
        plain = {self.table: TABLE, self.scales: SCALES, self.rows: ROWS}
        if name in plain:
            return plain[name]
        ours = name.replace(f"{self.stem}.", PREFIX, 1)
        return ours if name.startswith(f"{self.stem}.") and _COMPRESSED.fullmatch(ours) else None


def build(parts: Mapping[str, Array]) -> Table:
    """Build a table from its parts, by our names; parts may be mapped and are not read.

    Raises ModelError for inconsistent parts.
    """
    table = _rows(parts)
    if ROWS in parts:
        table = SharedRows(table, parts[ROWS])
    if SCALES in parts:
        scales = parts[SCALES]
        if scales.shape != (len(table),):
            raise ModelError(f"scales of shape {scales.shape} for {len(table)} rows")
        table = ScaledTable(table, scales)
    return table


def check(parts: Mapping[str, Array], names: Mapping[str, str]) -> None:
    """Read all parts; raise ModelError for NaN, infinity, and codes outside their codebook.

    names: name of a tensor in the file -> our name.
    """
    for name, ours in names.items():
        if parts[ours].dtype.kind == "f" or parts[ours].dtype == np.uint16:
            _check_finite(name, parts[ours])
        if ours == CODES:
            size = parts[CODEBOOKS].shape[1]
            if parts[ours].size and parts[ours].max() >= size:
                raise ModelError(f"{name} has codes beyond the {size} of each codebook")


def decode(table: Table) -> Floats:
    """Return a copy of all rows (N, D)."""
    rows = np.empty((len(table), table.width), np.float32)
    for start in range(0, len(table), BLOCK):
        rows[start : start + BLOCK] = table[start : start + BLOCK]
    return rows


def _rows(parts: Mapping[str, Array]) -> Table:
    if TABLE in parts:
        if parts[TABLE].ndim != 2:
            raise ModelError(f"a table of shape {parts[TABLE].shape}")
        return PlainTable(parts[TABLE])
    build_compressed: Callable[[Mapping[str, Array]], Table] = pkgutil.resolve_name(_BUILD)
    return build_compressed(parts)


def _check_finite(name: str, values: Array) -> None:
    if not all(map(is_finite, blocks(PlainTable(values)))):
        raise ModelError(
            f"{name} has NaN or infinity, or a number beyond {TOO_LARGE:.0e}; fetch the model again"
        )
