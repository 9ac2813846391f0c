"""Stored tables: the names of their parts in files, their construction, and their validation."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from embedwell_models.errors import ModelError
from embedwell_models.tables.compressed import (
    CODEBOOK_SIZE,
    CodedTable,
    HashedTable,
    Tier,
    TieredTable,
)
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
    to_float32,
)
from embedwell_models.vectors import Floats

TABLE, ROWS, SCALES = "token_table", "token_rows", "token_scales"
CODES, CODEBOOKS = "token_codes", "token_codebooks"
POOL, IMPORTANCE = "token_pool", "token_importance"
TIER, DIRECTIONS = "token_tier", "token_directions"
"""Name format with the number of the tier, from 0."""
_PREFIX = "token_"
_COMPRESSED = re.compile(r"token_(codes|codebooks|tier\d+|directions\d+|pool|importance)")


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
        return plain.get(part, f"{self.stem}.{part.removeprefix(_PREFIX)}")

    def _ours(self, name: str) -> str | None:
        plain = {self.table: TABLE, self.scales: SCALES, self.rows: ROWS}
        if name in plain:
            return plain[name]
        ours = name.replace(f"{self.stem}.", _PREFIX, 1)
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
        raise ModelError(f"the checkpoint lacks the table's {name.removeprefix(_PREFIX)}")
    return parts[name]


def _check_finite(name: str, values: Array) -> None:
    if not all(map(is_finite, blocks(PlainTable(values)))):
        raise ModelError(
            f"{name} has NaN or infinity, or a number beyond {TOO_LARGE:.0e}; fetch the model again"
        )
