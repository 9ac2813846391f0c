"""Convert vectors to number types, and encode them for JSON as numbers or base64."""

import base64
from collections.abc import Iterable
from typing import Any, Literal, cast

import numpy as np

from embedwell.errors import NotFinite
from embedwell_models.vectors import Floats, quantize

EncodingFormat = Literal["float", "base64"]
OutputType = Literal["float32", "float16", "int8", "uint8", "binary", "ubinary"]
Array = np.ndarray[Any, Any]
Vector = list[float] | str
"""A vector as numbers, or as their bytes in base64."""
Matrix = list[list[float]]
Vectors = Matrix | list[str]


def convert_vectors(vectors: Floats, dtype: OutputType, index: int | None = None) -> Array:
    """Convert vectors (B, D) to another number type; raises NotFinite if float16 overflows.

    index: the input to which all rows belong. By default row i belongs to input i.
    """
    values = quantize(vectors, dtype)
    if dtype == "float16":
        for row in rows_not_finite(values):
            raise float16_overflow(int(row) if index is None else index)
    return values


def rows_not_finite(values: Array) -> Array:
    """Return the indices of rows that have a NaN or an infinity: (B, D) -> (at most B,)."""
    return np.flatnonzero(~np.isfinite(values).all(axis=1))


def float16_overflow(index: int) -> NotFinite:
    """Create the error for an input whose vector float16 cannot represent."""
    return NotFinite(
        f"a vector of input {index} has a number above 65504, the limit of float16; request "
        "float32, or set normalize",
        param="output_dtype",
        index=index,
    )


def as_lists(values: Array) -> Any:
    """Return an array itself where a response type has nested lists: JSON is the same for both."""
    return values


def encode_rows(values: Array, encoding_format: EncodingFormat) -> Vectors:
    """Encode an array for JSON: nested numbers, or each row's little-endian bytes in base64."""
    if encoding_format == "float":
        return cast("Matrix", values)
    return [base64.b64encode(row).decode() for row in values]


def encode_block(values: Array, encoding_format: EncodingFormat) -> Matrix | str:
    """Encode an array for JSON: nested numbers, or all of its bytes as one base64 string."""
    if encoding_format == "float":
        return cast("Matrix", values)
    return base64.b64encode(values.tobytes()).decode()


def encode_blocks(
    arrays: Iterable[Array], encoding_format: EncodingFormat
) -> list[Matrix] | list[str]:
    """Encode each array as `encode_block` does."""
    blocks = [encode_block(values, encoding_format) for values in arrays]
    return cast("list[Matrix] | list[str]", blocks)
