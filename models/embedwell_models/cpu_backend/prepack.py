"""Packing of matrices into the panels that the kernels read."""

from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from embedwell_models.cpu_backend.abi import Matrix
from embedwell_models.cpu_backend.library import (
    BFLOAT16_PRODUCTS,
    PRODUCTS,
    SHORT_SUMS,
    SPLIT_FLOATS,
)
from embedwell_models.cpu_backend.quantization import (
    QUANTIZED,
    InputObserver,
    Levels,
    Magnitudes,
    four_bit_levels,
    has_massive_activations,
    quantize_weight,
)
from embedwell_models.vectors import Floats

PRECISIONS = ("float32", "bfloat16", *QUANTIZED)
PANEL = 16  # columns of a panel
_TILE = 32, 64  # outputs and inputs of a tile; the kernels compute multiples of both
_STORED = ("whole", "four_bits", "bfloat16", "float16")  # in the order of kernels/kinds.h
_SAMPLE = 64  # inputs of a panel that show whether to look at all weights
_ALIGNMENT = 64  # bytes of a cache line, and of the widest register
_WORD = 4  # bytes of a group
_BLOCK = 1 << 16  # numbers that stay in a cache while they are rounded
T = TypeVar("T", bound=np.generic)


@dataclass(frozen=True)
class Packing:
    """Precision of packed weights.

    input_magnitudes: for int8 and int4. observer: observes the inputs of layers in float32, to
    calibrate these.
    """

    dtype: str
    input_magnitudes: Magnitudes = field(default_factory=dict)
    observer: InputObserver | None = None

    @property
    def quantized(self) -> bool:
        return self.dtype in QUANTIZED

    @property
    def products(self) -> str:
        """Precision of the products, which the names of the kernels have."""
        return PRODUCTS.get(self.dtype, self.dtype)


class WeightPacker:
    """Packer of weights, and owner of the memory that the kernels address."""

    def __init__(self, isa: str, packing: Packing) -> None:
        self._isa, self._packing = isa, packing
        short_sums = isa in SHORT_SUMS
        # With short sums the other products lose too much for this to help.
        can_keep = packing.quantized and not short_sums
        self._massive = can_keep and has_massive_activations(packing.input_magnitudes)
        self._levels = four_bit_levels(short_sums) if packing.dtype == "int4" else None
        self._arrays: list[npt.NDArray[Any]] = []

    def matrix(
        self, weight: Floats, bias: Floats, name: str, *, reads_attention: bool = False
    ) -> Matrix:
        """Pack weight (out, in) and bias (out,) of a linear layer, zero-padded to whole tiles.

        reads_attention: whether its inputs are the results of attention or of a convolution. With
        massive activations, int8 and int4 have this product in bfloat16 where the processor can,
        and otherwise in float32, but not with short sums.
        """
        rows, columns = padding_to_tiles(weight)
        if rows or columns:
            weight, bias = np.pad(weight, ((0, rows), (0, columns))), np.pad(bias, (0, rows))
        packing = self._packing
        if not packing.quantized or (reads_attention and self._massive):
            stored, panels = self._exact_panels(weight)
            observed = packing.observer and packing.observer.address(name, weight.shape[1])
            return Matrix(
                panels=self.retain(panels),
                bias=self.retain(bias),
                stored=_STORED.index(stored),
                observed=observed,
            )
        inputs = packing.input_magnitudes[name]
        inputs = np.pad(inputs, (0, weight.shape[1] - len(inputs)))
        short_sums, levels = self._isa in SHORT_SUMS, self._levels
        quantized = quantize_weight(weight, inputs, name, short_sums, levels)
        weights = to_panels(quantized.weight)
        return Matrix(
            panels=self.retain(weights if levels is None else to_four_bits(weights, levels)),
            bias=self.retain(bias),
            stored=_STORED.index("whole" if levels is None else "four_bits"),
            levels=None if levels is None else self.retain(levels),
            scales=self.retain(quantized.scales),
            sums=self.retain(quantized.sums),
            smoothing=self.retain(quantized.smoothing),
        )

    def with_no_weights(self) -> "WeightPacker":
        """Return a packer for the same precision that owns no memory yet."""
        return WeightPacker(self._isa, self._packing)

    def attention_panels(self, rows: Floats) -> int:
        """Pack vectors (H, rows, Dh) of each head in the precision of attention's products."""
        panels = rows.reshape(-1, rows.shape[-1])
        return self.retain(to_panels(to_bfloat16(panels) if self._rounded else panels))

    @property
    def _rounded(self) -> bool:
        # Whether the products that are not of integers are of numbers in bfloat16.
        packing = self._packing
        of_bfloat16 = packing.quantized and self._isa in BFLOAT16_PRODUCTS
        return packing.dtype == "bfloat16" or of_bfloat16

    def _exact_panels(self, weight: Floats) -> tuple[str, npt.NDArray[Any]]:
        # How they are stored, and the panels.
        if self._rounded:
            return "whole", to_panels(to_bfloat16(weight))
        panels = to_panels(weight)
        if self._isa in SPLIT_FLOATS:
            return "whole", panels
        return in_half(panels)

    def retain(self, array: npt.NDArray[Any]) -> int:
        """Keep a row-major copy of an array alive; return its address."""
        self._arrays.append(aligned_copy(array))
        return self._arrays[-1].ctypes.data


def to_panels(weight: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Order (out, in) as (out / 16, in / group, 16, 1); a group is 32 bits of one row.

    Groups of smaller numbers become one number each, which numpy copies at once.
    """
    words = weight if weight.itemsize == _WORD else np.ascontiguousarray(weight).view(np.uint32)
    rows, columns = words.shape
    return words.reshape(rows // PANEL, PANEL, columns, 1).transpose(0, 2, 1, 3)


def in_half(panels: Floats) -> tuple[str, npt.NDArray[Any]]:
    """Store numbers in 16 bits if that loses nothing; return how they are stored, and the array.

    Weights are such numbers if they were published in bfloat16 or float16.
    """
    sample = panels[:1, :_SAMPLE]
    if _is_bfloat16(sample) and _is_bfloat16(panels):
        return "bfloat16", panels.view(np.uint16)[..., 1::2]
    if _is_float16(sample) and _is_float16(panels):
        return "float16", panels.astype(np.float16)
    return "whole", panels


def _is_bfloat16(numbers: Floats) -> bool:
    # Whether the lower halves are zeros. A view of them takes no memory.
    return not numbers.view(np.uint16)[..., ::2].any()


def _is_float16(numbers: Floats) -> bool:
    with np.errstate(over="ignore"):
        return bool((numbers.astype(np.float16) == numbers).all())


def to_four_bits(panels: npt.NDArray[Any], levels: Levels) -> npt.NDArray[np.uint8]:
    """Replace levels by their numbers, two in a byte, as in kernels/unpacking.h.

    panels: bytes or groups of them, with lines of 64 bytes. Returns half as many lines, each of two
    neighbours.
    """
    numbers = np.zeros(256, np.uint8)
    numbers[levels.view(np.uint8)] = np.arange(len(levels))
    pairs = numbers[np.ascontiguousarray(panels).view(np.uint8)].reshape(-1, 2, _ALIGNMENT)
    packed: npt.NDArray[np.uint8] = pairs[:, 0] | pairs[:, 1] << np.uint8(4)
    return packed


def aligned_copy(array: npt.NDArray[T]) -> npt.NDArray[T]:
    """Return a row-major copy whose memory begins at a cache line."""
    memory = np.empty(array.nbytes + _ALIGNMENT, dtype=np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    copy = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def to_bfloat16(array: Floats) -> npt.NDArray[np.uint16]:
    """Round finite numbers to the nearest bfloat16, ties to even; return the upper 16 bits."""
    bits = np.ascontiguousarray(array).reshape(-1).view(np.uint32)
    halves = np.empty(array.shape, np.uint16)
    rounded = np.empty(min(_BLOCK, len(bits)), np.uint32)
    for start in range(0, len(bits), _BLOCK):
        block = bits[start : start + _BLOCK]
        sums = rounded[: len(block)]
        np.right_shift(block, np.uint32(16), out=sums)
        sums &= np.uint32(1)
        sums += np.uint32(0x7FFF)
        sums += block
        halves.reshape(-1)[start : start + _BLOCK] = sums.view(np.uint16)[1::2]
    return halves


def padding_to_tiles(weight: Floats) -> tuple[int, int]:
    """Return the numbers of rows and columns that pad a weight (out, in) to whole tiles."""
    return -weight.shape[0] % _TILE[0], -weight.shape[1] % _TILE[1]


def interleave_panels(gate: Floats, up: Floats) -> Floats:
    """Alternate panels of gate and up, so that a kernel computes both values of a column."""
    inner = gate.shape[1:]
    padding = ((0, -len(gate) % PANEL), *((0, 0) for _ in inner))
    panels = [np.pad(part, padding).reshape(-1, PANEL, *inner) for part in (gate, up)]
    return np.stack(panels, axis=1).reshape(-1, *inner)
