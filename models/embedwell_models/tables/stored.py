"""Stored tables: the names of their parts in files, their construction, and their validation."""

import pkgutil
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from embedwell_models.errors import ModelError
from embedwell_models.tables.table import (
    BLOCK,
    TOO_LARGE,
    Array,
    PlainTable,
    ScaledTable,
    SharedRows,
    Table,
    blocks,
    is_finite,
)
from embedwell_models.vectors import Floats

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
