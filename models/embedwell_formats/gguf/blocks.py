"""Matrices of GGUF files whose rows are quantised blocks: small integers with scales in float16.

n blocks, N rows, D dimensions. Layouts: https://github.com/ggml-org/llama.cpp/blob/master/ggml/src/ggml-common.h
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from embedwell_models.checkpoint.tables import Chosen, QuantizedMatrix
from embedwell_models.vectors import Floats

Bytes = npt.NDArray[np.uint8]
_Integers = npt.NDArray[np.uint8] | npt.NDArray[np.int8]
_NUMBERS = 1 << 18  # numbers that stay in a cache while they are decoded
_LARGE = 256  # numbers of a block of a K type
_IQ4 = np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.int8)


@dataclass(frozen=True)
class BlockType:
    """numbers: numbers of a block. size: its bytes. scales: offsets of its float16 scales.

    decode: function of blocks (n, size) that returns their numbers (n, numbers).
    """

    name: str
    numbers: int
    size: int
    scales: tuple[int, ...]
    decode: Callable[[Bytes], Floats]


def _q4_0(blocks: Bytes) -> Floats:
    return _scaled(_half(blocks, 0), _nibbles(blocks[:, 2:]).view(np.int8) - np.int8(8))


def _q4_1(blocks: Bytes) -> Floats:
    return _scaled(_half(blocks, 0), _nibbles(blocks[:, 4:])) + _half(blocks, 2)


def _q5_0(blocks: Bytes) -> Floats:
    integers = _nibbles(blocks[:, 6:]) | _fifth_bits(blocks[:, 2:6])
    return _scaled(_half(blocks, 0), integers.view(np.int8) - np.int8(16))


def _q5_1(blocks: Bytes) -> Floats:
    integers = _nibbles(blocks[:, 8:]) | _fifth_bits(blocks[:, 4:8])
    return _scaled(_half(blocks, 0), integers) + _half(blocks, 2)


def _q8_0(blocks: Bytes) -> Floats:
    return _scaled(_half(blocks, 0), blocks[:, 2:].view(np.int8))


def _q2_k(blocks: Bytes) -> Floats:
    parts, bits = blocks[:, :16], _shifted(blocks[:, 16:80], (0, 2, 4, 6)) & np.uint8(3)
    scales, minima = _half(blocks, 80) * (parts & 15), _half(blocks, 82) * (parts >> 4)
    return _minus(_by_part(scales, bits), minima)


def _q3_k(blocks: Bytes) -> Floats:
    bits = _shifted(blocks[:, 32:96], (0, 2, 4, 6)) & np.uint8(3)
    # A bit of the mask is for the same place in each 32 numbers; if it is 0, 4 is subtracted.
    absent = ~_shifted(blocks[:, :32], range(8)) & np.uint8(1)
    integers = bits.view(np.int8) - (absent << 2).view(np.int8)
    low = _nibbles(blocks[:, 96:104])
    high = (_shifted(blocks[:, 104:108], (0, 2, 4, 6)) & np.uint8(3)) << 4
    scales = (low | high).view(np.int8) - np.int8(32)
    return _by_part(_half(blocks, 108) * scales, integers).reshape(-1, _LARGE)


def _q4_k(blocks: Bytes) -> Floats:
    scales, minima = _scales_and_minima(blocks)
    return _minus(_by_part(scales, _pairs_of_nibbles(blocks[:, 16:], 32)), minima)


def _q5_k(blocks: Bytes) -> Floats:
    scales, minima = _scales_and_minima(blocks)
    fifth = (_shifted(blocks[:, 16:48], range(8)) & np.uint8(1)) << 4
    return _minus(_by_part(scales, _pairs_of_nibbles(blocks[:, 48:], 32) | fifth), minima)


def _q6_k(blocks: Bytes) -> Floats:
    low = _pairs_of_nibbles(blocks[:, :128], 64)
    high = (_shifted(blocks[:, 128:192], (0, 2, 4, 6)) & np.uint8(3)) << 4
    scales = _half(blocks, 208) * blocks[:, 192:208].view(np.int8)
    return _by_part(scales, (low | high).view(np.int8) - np.int8(32)).reshape(-1, _LARGE)


def _iq4_nl(blocks: Bytes) -> Floats:
    return _scaled(_half(blocks, 0), _IQ4[_nibbles(blocks[:, 2:])])


def _iq4_xs(blocks: Bytes) -> Floats:
    low = _pairs_of_nibbles(blocks[:, 4:8], 1)
    high = blocks[:, 2:4].repeat(4, axis=1) >> np.array([0, 2, 4, 6] * 2, np.uint8)
    scales = (low | ((high & np.uint8(3)) << 4)).view(np.int8) - np.int8(32)
    integers = _IQ4[_pairs_of_nibbles(blocks[:, 8:], 16)]
    return _by_part(_half(blocks, 0) * scales, integers).reshape(-1, _LARGE)


def _half(blocks: Bytes, offset: int) -> Floats:
    # A float16 of each block as float32: (n, 1).
    halves = np.ascontiguousarray(blocks[:, offset : offset + 2]).view("<f2")
    floats: Floats = halves.astype(np.float32)
    return floats


def _nibbles(part: Bytes) -> Bytes:
    # (n, k) -> (n, 2 k): the lower four bits of all bytes, then the upper ones.
    return np.concatenate([part & np.uint8(15), part >> 4], axis=1)


def _pairs_of_nibbles(part: Bytes, group: int) -> Bytes:
    # (n, k) -> (n, 2 k): lower and upper bits of so many bytes at a time.
    groups = part.reshape(len(part), -1, 1, group)
    return np.concatenate([groups & np.uint8(15), groups >> 4], axis=2).reshape(len(part), -1)


def _shifted(part: Bytes, shifts: range | tuple[int, ...]) -> Bytes:
    # (n, k) -> (n, k * shifts): 32 bytes (or 4) at a time, shifted right by each number of bits.
    group = min(part.shape[1], 32)
    by = np.array(shifts, np.uint8)[:, None]
    return (part.reshape(len(part), -1, 1, group) >> by).reshape(len(part), -1)


def _fifth_bits(part: Bytes) -> Bytes:
    # Four bytes hold a bit of each of 32 numbers.
    bits = np.unpackbits(np.ascontiguousarray(part), axis=1, bitorder="little")
    return bits << np.uint8(4)


def _scales_and_minima(blocks: Bytes) -> tuple[Floats, Floats]:
    # Twelve bytes hold six bits of each of eight scales and eight minima.
    first, second, rest = blocks[:, 4:8], blocks[:, 8:12], blocks[:, 12:16]
    scales = np.concatenate([first & 63, (rest & 15) | ((first >> 2) & 48)], axis=1)
    minima = np.concatenate([second & 63, (rest >> 4) | ((second >> 2) & 48)], axis=1)
    return _half(blocks, 0) * scales, _half(blocks, 2) * minima


def _scaled(scale: Floats, integers: _Integers) -> Floats:
    scaled: Floats = scale * integers.astype(np.float32)
    return scaled


def _by_part(scales: Floats, integers: _Integers) -> Floats:
    # Scales (n, parts) times integers: (n, parts, numbers of a part).
    n, parts = scales.shape
    return _scaled(scales[:, :, None], integers.reshape(n, parts, -1))


def _minus(scaled: Floats, minima: Floats) -> Floats:
    scaled -= minima[:, :, None]
    return scaled.reshape(len(scaled), -1)


BLOCK_TYPES: Mapping[str, BlockType] = {
    each.name: each
    for each in (
        BlockType("Q4_0", 32, 18, (0,), _q4_0),
        BlockType("Q4_1", 32, 20, (0, 2), _q4_1),
        BlockType("Q5_0", 32, 22, (0,), _q5_0),
        BlockType("Q5_1", 32, 24, (0, 2), _q5_1),
        BlockType("Q8_0", 32, 34, (0,), _q8_0),
        BlockType("Q2_K", _LARGE, 84, (80, 82), _q2_k),
        BlockType("Q3_K", _LARGE, 110, (108,), _q3_k),
        BlockType("Q4_K", _LARGE, 144, (0, 2), _q4_k),
        BlockType("Q5_K", _LARGE, 176, (0, 2), _q5_k),
        BlockType("Q6_K", _LARGE, 210, (208,), _q6_k),
        BlockType("IQ4_NL", 32, 18, (0,), _iq4_nl),
        BlockType("IQ4_XS", _LARGE, 136, (0,), _iq4_xs),
    )
}
"""Types of blocks by their names in GGUF."""


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
