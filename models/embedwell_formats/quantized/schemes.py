"""Quantised weights of layers, each stored as several tensors: numbers, scales, zero points."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from embedwell_models.checkpoint.formats import StoredTensor
from embedwell_models.checkpoint.tables import Array, LayerMatrix, QuantizedMatrix
from embedwell_models.errors import ModelError
from embedwell_models.vectors import Floats

Bytes = npt.NDArray[np.uint8]

INTEGERS = {2: "INT2", 3: "INT3", 4: "INT4", 8: "INT8"}
"""Names of the types of quantised integers by their bits; the files' I8 is also one of indices."""


@dataclass(frozen=True)
class Parts:
    """Tensors of one layer. name: the layer's, for messages. tensors: by the names of the parts."""

    name: str
    tensors: Mapping[str, StoredTensor]

    def __contains__(self, part: str) -> bool:
        return part in self.tensors

    def __getitem__(self, part: str) -> StoredTensor:
        """Return a part; raises ModelError if it is missing."""
        if part not in self.tensors:
            raise ModelError(f"{self.name}: the checkpoint lacks {part}; fetch the model again")
        return self.tensors[part]

    def floats(self, part: str) -> Floats:
        """Return a part as float32; raises ModelError if it does not hold floating-point numbers.

        Raises ModelError also if the part is missing.
        """
        tensor = self[part]
        if not tensor.is_float:
            raise ModelError(f"{self.name}: {part} {tensor.refusal}")
        return tensor.to_float32()

    def integers(self, part: str, *dtypes: str) -> Array:
        """Return a part as it is stored; raises ModelError if it is missing or of another type."""
        tensor = self[part]
        if tensor.dtype not in dtypes or isinstance(tensor.array, QuantizedMatrix):
            raise ModelError(
                f"{self.name}: {part} is of type {tensor.dtype}; supported: {', '.join(dtypes)}"
            )
        return tensor.array

    def matrix(self, shape: tuple[int, ...], decode: Callable[[], Floats]) -> LayerMatrix:
        """Return the weight; raises ModelError for a shape that is not one of a matrix."""
        if len(shape) != 2:
            raise ModelError(f"{self.name}: the weight has the shape {shape}, not one of a matrix")
        return LayerMatrix(self.name, (shape[0], shape[1]), decode)


class Scheme(ABC):
    """Way of storing quantised weights.

    endings: the ends of the names of a layer's parts, after the layer's name and a point. A layer
    with one of them is quantised.
    """

    endings: ClassVar[tuple[str, ...]]

    @abstractmethod
    def weight(self, parts: Parts) -> tuple[str, QuantizedMatrix] | None:
        """Return type and weight of a layer; None if it is not quantised; raises ModelError."""

    def tensors(
        self, folder: Path, stored: Iterable[tuple[str, StoredTensor]]
    ) -> Iterator[tuple[str, StoredTensor]]:
        """Yield name and value of every tensor, with the parts of a quantised layer as its weight.

        Raises ModelError for a layer that lacks a part.
        """
        plain = dict(stored)
        endings = "|".join(map(re.escape, self.endings))
        pattern = re.compile(rf"(.+?)\.({endings})")
        layers: dict[str, dict[str, StoredTensor]] = {}
        for name in [*plain]:
            if match := pattern.fullmatch(name):
                layers.setdefault(match[1], {})[match[2]] = plain.pop(name)
        for layer, parts in layers.items():
            weight = f"{layer}.weight"
            if weight in plain:
                parts["weight"] = plain[weight]
            if (read := self.weight(Parts(f"{folder}: {layer}", parts))) is not None:
                plain[weight] = StoredTensor(*read)
        yield from plain.items()


def unpack(words: Array, bits: int) -> Bytes:
    """Return the unsigned numbers (..., n · 32 / bits) of words (..., n), the lowest bits first.

    Three words hold 32 numbers of three bits, of which two are in two words.
    """
    if bits == 3:
        return _unpack_3_bits(words)
    shifts = np.arange(0, 32, bits, dtype=np.uint32)
    numbers = words.view(np.uint32)[..., None] >> shifts & np.uint32(2**bits - 1)
    return numbers.astype(np.uint8).reshape(*words.shape[:-1], -1)


def _unpack_3_bits(words: Array) -> Bytes:
    groups = words.view(np.uint32).reshape(*words.shape[:-1], -1, 3).astype(np.uint64)
    after = np.concatenate([groups[..., 1:], np.zeros_like(groups[..., :1])], axis=-1)
    places = np.arange(0, 96, 3, dtype=np.uint64)
    index, shifts = (places // 32).astype(np.intp), places % 32
    pairs = (groups | after << np.uint64(32))[..., index]  # a word and the next one
    numbers = (pairs >> shifts & np.uint64(7)).astype(np.uint8)
    return numbers.reshape(*words.shape[:-1], -1)


def spread(
    values: Floats,
    shape: tuple[int, int],
    block: tuple[int, int] | None = None,
    groups: Array | None = None,
) -> Floats:
    """Spread scales or zero points over a matrix, to (1, 1), (N, 1) or (N, D).

    values: one number, one for each row (N,) or (N, 1), one for each group of columns (N, G), or
    one for each block. shape: N, D. block: rows and columns of a block, of which the last ones may
    be smaller. groups: (D,) the group of each column; by default groups are of equal size.

    Raises ValueError for values that do not fit.
    """
    if values.size == 1:
        return values.reshape(1, 1)
    values = values[:, None] if values.ndim == 1 else values
    rows, columns = shape
    if groups is not None:
        spread = values[:, groups]
    elif block is not None and values.shape == (-(-rows // block[0]), -(-columns // block[1])):
        spread = values.repeat(block[0], axis=0)[:rows].repeat(block[1], axis=1)[:, :columns]
    elif values.shape[1] == 1:
        spread = values
    else:
        spread = values.repeat(columns // values.shape[1], axis=1)
    if spread.shape not in ((rows, 1), shape):
        raise ValueError(f"{values.shape} values for a matrix of {shape}")
    return spread
