"""The columns of an input that are read and written, and the origin of its rows."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from embedwell.bulk.errors import BulkError

EMBEDDING, ROW = "embedding", "row"
"""Columns that a run adds."""


@dataclass(frozen=True)
class Columns:
    """Names of columns of the input.

    text: column of the texts; None for images alone.
    id: column that identifies a row; None adds the column `row` instead.
    keep: columns to write beside the vectors, always with the id; None for all, except the bytes of
        images.
    image: column of the images; None for texts alone.
    """

    text: str | None = "text"
    id: str | None = None
    keep: tuple[str, ...] | None = None
    image: str | None = None

    @property
    def inputs(self) -> tuple[str, ...]:
        """The columns that are embedded."""
        return tuple(name for name in (self.image, self.text) if name is not None)

    def described(self) -> dict[str, Any]:
        """Return the names, for JSON; without that of images if there are none."""
        described = asdict(self)
        return described if self.image else {k: v for k, v in described.items() if k != "image"}

    def to_read(self, names: Sequence[str], file: str) -> list[str]:
        """Return the needed columns of a file. Raises BulkError for a missing one."""
        wanted = [*self.inputs, *filter(None, [self.id]), *(self.keep or ())]
        for name in wanted:
            if name not in names:
                raise BulkError(f"{file} has no column {name!r}; it has: {', '.join(names)}")
        if len({*names}) < len(names):
            raise BulkError(
                f"{file} has two columns with the same name: {', '.join(names)}; rename one"
            )
        read = [name for name in names if self.keep is None or name in wanted]
        for name in (EMBEDDING, *[ROW] * (self.id is None)):
            if name in self.written(read):
                raise BulkError(
                    f"{file} has a column {name!r}, whose name the result needs; choose the "
                    "columns to write with --keep"
                )
        return read

    def written(self, names: Sequence[str]) -> list[str]:
        """Return those of the read columns that are written."""
        return [name for name in names if self.keep is None or name in self.keep or name == self.id]


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
