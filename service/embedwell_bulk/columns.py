"""The columns of an input that are read and written: texts, images, and the origin of rows."""

import posixpath
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from embedwell_bulk import BulkError

EMBEDDING, ROW = "embedding", "row"
"""Columns that a run adds."""
VALUES, FILE, POSITION, REASON = "values", "file", "position", "reason"
"""Columns of Rows."""
_BYTES = "bytes"  # field of a column that the datasets library writes, next to the field path


@dataclass(frozen=True)
class Columns:
    """Names of columns of the input.

    text: column of the texts; None for images alone.
    id: column that identifies a row; None adds the column `row` instead.
    keep: columns to write next to the vectors, always with the id; None for all, except the bytes
        of images.
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


def row_without_values(schema: pa.Schema, file: str, position: int, reason: str) -> Rows:
    """Return one row that cannot be embedded, of which only the origin is known."""
    columns = [pa.nulls(1, field.type) for field in schema]
    values = pa.RecordBatch.from_arrays(columns, schema=schema)
    return with_origin(values, file, [position], pa.array([reason]))


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


class ImageAndText(NamedTuple):
    """One input: the bytes of an image or the address of its file, and the text after it.

    None for an input without an image, or without a text.
    """

    image: bytes | str | None = None
    text: str | None = None


def has_bytes(kind: pa.DataType) -> bool:
    """Whether a column has the bytes of images, plain or as the datasets library writes them."""
    if pa.types.is_struct(kind) and kind.get_field_index(_BYTES) >= 0:
        kind = kind.field(_BYTES).type
    return bool(
        pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind)
    )


def bytes_problems(column: pa.Array, name: str) -> pa.StringArray:
    """Return the problem of each image's bytes (n,), which are null; null for none."""
    return pc.if_else(_plain(column).is_null(), f"{name} is null", pa.scalar(None, pa.string()))


def has_value(column: pa.Array) -> pa.BooleanArray:
    """Whether each row has a value (n,): a text, a path, or the bytes of an image."""
    return _plain(column).is_valid()


def read_inputs(
    values: pa.Table, files: pa.ChunkedArray, columns: Columns
) -> list[str] | list[ImageAndText]:
    """Return the texts of n rows, or their images with or without texts.

    A path is relative to the folder of the file that has it. Next to texts, an empty path is no
    image. files: addresses of the rows' files (n,).
    """
    text = columns.text
    texts: list[Any] = [None] * len(values) if text is None else values[text].to_pylist()
    if columns.image is None:
        return texts
    images = _plain(values[columns.image]).to_pylist()
    both = text is not None
    return [
        ImageAndText(None if both and image == "" else _absolute(image, file), text)
        for image, text, file in zip(images, texts, files.to_pylist(), strict=True)
    ]


def _absolute(image: bytes | str | None, file: str) -> bytes | str | None:
    if image and isinstance(image, str):
        return posixpath.join(posixpath.dirname(file), image)
    return image


def _plain(column: Any) -> Any:
    return pc.struct_field(column, _BYTES) if pa.types.is_struct(column.type) else column
