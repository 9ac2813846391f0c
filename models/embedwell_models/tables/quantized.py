"""Matrices that are stored quantised, and become float32 when they are read."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from embedwell_models.tables.block_types import BlockType, Bytes
from embedwell_models.tables.table import Array, Chosen, to_float32
from embedwell_models.vectors import Floats

_NUMBERS = 1 << 18  # numbers that stay in a cache while they are decoded


class QuantizedMatrix(ABC):
    """Matrix (N, D) that is stored quantised."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """N, D."""

    @property
    def ndim(self) -> int:
        return 2

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def width(self) -> int:
        """Number of dimensions."""
        return self.shape[1]

    @abstractmethod
    def __getitem__(self, rows: Chosen) -> Floats:
        """Return some rows (n, D) as float32."""

    @abstractmethod
    def rows(self, start: int, stop: int) -> "QuantizedMatrix":
        """Return consecutive rows as they are stored."""

    @abstractmethod
    def to_float32(self) -> Floats:
        """Decode all rows (N, D)."""

    @abstractmethod
    def is_finite(self) -> bool:
        """Whether no number is NaN or infinity."""


@dataclass(frozen=True)
class BlockMatrix(QuantizedMatrix):
    """Matrix (N, D) whose rows are quantised blocks; it is also a table.

    blocks: (N, bytes of a row), which may be mapped. kind: the type of the blocks.
    """

    blocks: Bytes
    kind: BlockType

    @property
    def shape(self) -> tuple[int, int]:
        """N, D."""
        rows, size = self.blocks.shape
        return rows, size // self.kind.size * self.kind.numbers

    def __getitem__(self, rows: Chosen) -> Floats:
        """Return some rows (n, D) as float32."""
        chosen = self.blocks[rows]
        numbers = self.kind.decode(chosen.reshape(-1, self.kind.size))
        return numbers.reshape(len(chosen), self.width)

    def rows(self, start: int, stop: int) -> "BlockMatrix":
        """Return consecutive rows as they are stored."""
        return BlockMatrix(self.blocks[start:stop], self.kind)

    def to_float32(self) -> Floats:
        """Decode all rows (N, D)."""
        decoded = np.empty(self.shape, np.float32)
        step = max(1, _NUMBERS // max(1, self.width))
        for start in range(0, len(self), step):
            decoded[start : start + step] = self[start : start + step]
        return decoded

    def is_finite(self) -> bool:
        """Whether no number is NaN or infinity; only the scales are read."""
        blocks = self.blocks.reshape(-1, self.kind.size)
        upper = [blocks[:, offset + 1] & np.uint8(0x7C) for offset in self.kind.scales]
        return not any((exponent == 0x7C).any() for exponent in upper)


Stored = Array | QuantizedMatrix
"""Numbers as a file holds them; uint16 means the bits of bfloat16."""


def decoded(numbers: Stored) -> Floats:
    """Return stored numbers as float32; no copy if they are stored so."""
    return numbers.to_float32() if isinstance(numbers, QuantizedMatrix) else to_float32(numbers)
