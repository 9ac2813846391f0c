"""Tables as files have them: what their parts build, and whether they fit.

The parts have our names (`models.tables.names`) in every family.
"""

from collections.abc import Mapping

import numpy as np

from models.errors import ModelError
from models.neighbors import BLOCK
from models.tables.codes import CODEBOOK_SIZE, CodedTable
from models.tables.names import CODEBOOKS, CODES, ROWS, SCALES, TABLE
from models.tables.table import (
    Array,
    PlainTable,
    ScaledTable,
    SharedRows,
    Table,
    blocks,
    to_float32,
)
from models.vectors import Floats


def build(parts: Mapping[str, Array]) -> Table:
    """Build a table of its parts, by our names, which may be mapped; none is read.

    Raises ModelError for parts that do not fit together.
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
    """Read all parts; raise ModelError for NaN, infinity, and a code without a vector.

    names: ours, by those of the tensors in the file.
    """
    for name, ours in names.items():
        if parts[ours].dtype.kind == "f" or parts[ours].dtype == np.uint16:
            _check_finite(name, parts[ours])
        if ours == CODES:
            size = parts[CODEBOOKS].shape[1]
            if parts[ours].size and parts[ours].max() >= size:
                raise ModelError(f"{name} has codes beyond the {size} of each codebook")


def decode(table: Table) -> Floats:
    """Return all rows (N, D), a copy."""
    rows = np.empty((len(table), table.width), np.float32)
    for start in range(0, len(table), BLOCK):
        rows[start : start + BLOCK] = table[start : start + BLOCK]
    return rows


def _rows(parts: Mapping[str, Array]) -> Table:
    if TABLE in parts:
        if parts[TABLE].ndim != 2:
            raise ModelError(f"a table of shape {parts[TABLE].shape}")
        return PlainTable(parts[TABLE])
    return _coded(parts)


def _coded(parts: Mapping[str, Array]) -> CodedTable:
    codes, codebooks = _required(parts, CODES), _required(parts, CODEBOOKS)
    fits = codes.ndim == 2 and codebooks.ndim == 3 and codes.shape[1] == len(codebooks)
    if codes.dtype != np.uint8 or not fits or codebooks.shape[1] > CODEBOOK_SIZE:
        raise ModelError(
            f"codes of {codes.dtype} and shape {codes.shape}, and codebooks of shape "
            f"{codebooks.shape}: a row needs a byte for each codebook"
        )
    return CodedTable(codes, np.array(to_float32(codebooks)))


def _required(parts: Mapping[str, Array], name: str) -> Array:
    if name not in parts:
        raise ModelError(f"the checkpoint lacks the table's {name.removeprefix('token_')}")
    return parts[name]


def _check_finite(name: str, values: Array) -> None:
    # Minimum and maximum are NaN if any value is.
    for block in blocks(PlainTable(values)):
        if block.size and not np.isfinite([block.min(), block.max()]).all():
            raise ModelError(f"{name} has NaN or infinity in it: fetch the model again")
