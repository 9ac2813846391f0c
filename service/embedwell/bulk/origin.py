"""Rows with their origin: their position in a file, and the reason if they have no text."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

VALUES, FILE, POSITION, REASON = "values", "file", "position", "reason"

Rows: TypeAlias = pa.RecordBatch
"""Columns: values (a struct of the input's columns), file, position and reason.

position: position of a row; lines count from 1, rows of Parquet and Arrow files from 0.
reason: why a row cannot be embedded; null for a valid row.
"""


def with_origin(
    values: pa.RecordBatch, file: str, positions: Sequence[int] | pa.Array, reasons: pa.Array
) -> Rows:
    """Add the origin to the values of n rows.

    positions, reasons: (n,).
    """
    columns = {
        VALUES: values.to_struct_array(),
        FILE: pa.repeat(pa.scalar(file), len(values)).dictionary_encode(),
        POSITION: pa.array(positions, pa.int64()),
        REASON: reasons,
    }
    return pa.RecordBatch.from_pydict(columns)


def input_columns(rows: pa.Table) -> pa.Table:
    """Return the columns that the input has, without those of its origin."""
    return pa.Table.from_struct_array(rows[VALUES])


def text_problems(texts: pa.StringArray, column: str) -> pa.StringArray:
    """Return the problem of each text (n,), a null or bytes that are not UTF-8; null for none."""
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        return pa.array([_problem(text, column) for text in texts], pa.string())
    return pc.if_else(texts.is_null(), f"{column} is null", pa.scalar(None, pa.string()))


def _problem(text: Any, column: str) -> str | None:
    if not text.is_valid:
        return f"{column} is null"
    try:
        text.as_py()
    except UnicodeDecodeError:
        return f"{column} is not UTF-8"
    return None
