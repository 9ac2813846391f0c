"""A tensor in its mapped file, and the types of numbers that safetensors files have."""

from dataclasses import dataclass

import numpy as np

from embedwell_models.tables.table import QuantizedMatrix, Stored
from embedwell_models.vectors import Floats

FLOATS = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}
INTEGERS = {"I8": "i1", "U8": "u1", "I32": "<i4", "I64": "<i8", "U64": "<u8"}
FP8 = "F8_E4M3"


@dataclass(frozen=True)
class TensorHeader:
    """Shape and type of a tensor, from the header of its file."""

    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class StoredTensor:
    """Tensor in its mapped file, which it keeps mapped. dtype: the file's name of its type.

    array: the numbers, with those of bfloat16 and FP8 as unsigned integers; flat bytes of another
    type.
    """

    dtype: str
    array: Stored

    @property
    def is_float(self) -> bool:
        """Whether the numbers can be read as floating-point numbers."""
        return self.dtype in FLOATS or isinstance(self.array, QuantizedMatrix)

    @property
    def is_integer(self) -> bool:
        return self.dtype in INTEGERS

    @property
    def refusal(self) -> str:
        """Message about a type without floating-point numbers."""
        return f"is of type {self.dtype}; supported: {', '.join(FLOATS)}"

    def to_float32(self) -> Floats:
        """Return the numbers as float32; no copy if the file holds float32."""
        assert self.is_float
        if isinstance(self.array, QuantizedMatrix):
            return self.array.to_float32()
        if self.dtype == "BF16":  # the upper half of a float32
            wide = self.array.astype(np.uint32)
            wide <<= 16
            return wide.view(np.float32)
        with np.errstate(over="ignore", invalid="ignore"):  # to infinity
            numbers: Floats = self.array.astype(np.float32, copy=False)
        return numbers
