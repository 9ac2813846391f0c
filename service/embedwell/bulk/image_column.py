"""A column of images: the bytes of files, or their paths."""

import posixpath
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_BYTES = "bytes"  # field of a column that the datasets library writes, beside the field path


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


def read_images(column: pa.ChunkedArray, files: Sequence[str]) -> list[bytes | str]:
    """Return the images of a column: bytes, or addresses of their files.

    A path is relative to the folder of the file that has it. files: addresses of those files (n,).
    """
    values: list[Any] = _plain(column).to_pylist()
    return [
        posixpath.join(posixpath.dirname(file), value) if isinstance(value, str) else value
        for value, file in zip(values, files, strict=True)
    ]


def _plain(column: Any) -> Any:
    return pc.struct_field(column, _BYTES) if pa.types.is_struct(column.type) else column
