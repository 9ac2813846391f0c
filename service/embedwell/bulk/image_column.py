"""Inputs of images, with or without texts; an image is the bytes of a file, or its path."""

import posixpath
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from embedwell.bulk.columns import Columns

_BYTES = "bytes"  # field of a column that the datasets library writes, beside the field path


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

    A path is relative to the folder of the file that has it. Beside texts, an empty path is no
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
