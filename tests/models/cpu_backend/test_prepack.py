"""Tests of packing; the tests of linear layers show that the kernels read what it packs."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal

from embedwell_models.cpu_backend.prepack import (
    Packing,
    WeightPacker,
    aligned_copy,
    in_half,
    interleave_panels,
    padding_to_tiles,
    to_bfloat16,
    to_four_bits,
    to_panels,
)
from embedwell_models.cpu_backend.quantization import four_bit_levels
from embedwell_models.vectors import Floats


def as_bfloat16(array: Floats) -> Floats:
    rounded: Floats = torch.from_numpy(array).bfloat16().float().numpy()
    return rounded


def test_numbers_are_rounded_to_bfloat16_as_torch_rounds_them() -> None:
    noise = np.random.default_rng(2)
    numbers = (noise.standard_normal(4096) * 10.0 ** noise.integers(-38, 38, 4096)).astype(
        np.float32
    )
    halves = (np.arange(1 << 12, dtype=np.uint32) << 15).view(np.float32)  # ties
    largest = np.array([3.4e38, -3.4e38, 0.0, -0.0, 1e-45], dtype=np.float32)
    several_blocks = noise.standard_normal((3, 50_000), dtype=np.float32)
    for array in (numbers, halves, largest, several_blocks, several_blocks.T):
        found = (to_bfloat16(array).astype(np.uint32) << 16).view(np.float32)
        assert_array_equal(found, as_bfloat16(array))


@pytest.mark.parametrize("dtype", [np.float32, np.uint16, np.int8])
def test_a_copy_is_row_major_and_begins_at_a_cache_line(dtype: type[np.generic]) -> None:
    values = np.arange(210).astype(dtype).reshape(7, 30).T
    for copy in (aligned_copy(values), aligned_copy(values[1:])):
        assert copy.ctypes.data % 64 == 0 and copy.flags.c_contiguous
    assert np.array_equal(aligned_copy(values), values)
    assert aligned_copy(values[:0]).shape == (0, 7)


@pytest.mark.parametrize("dtype", [np.float32, np.uint16, np.int8])
def test_a_panel_has_32_bits_of_each_of_16_rows_after_the_other(dtype: type[np.generic]) -> None:
    weight = np.random.default_rng(3).integers(0, 100, (8, 32)).astype(dtype).T  # a view
    group = 4 // weight.itemsize
    panels = aligned_copy(to_panels(weight)).view(dtype).reshape(2, 8 // group, 16, group)
    for (panel, column, row, at), number in np.ndenumerate(panels):
        assert number == weight[16 * panel + row, column * group + at]


def test_rows_and_columns_are_padded_to_whole_tiles() -> None:
    shapes = {(32, 64): (0, 0), (33, 65): (31, 63), (1, 1): (31, 63)}
    for shape, padding in shapes.items():
        assert padding_to_tiles(np.zeros(shape, dtype=np.float32)) == padding


BFLOAT16, FLOAT16, NEITHER = np.float32(2.0**100), np.float32(1 + 2**-10), np.float32(1 + 2**-20)
"""Numbers that one 16-bit type, or none, has."""


@pytest.mark.parametrize(
    ("number", "stored"),
    [(BFLOAT16, "bfloat16"), (FLOAT16, "float16"), (NEITHER, "whole"), (np.nan, "bfloat16")],
)
@pytest.mark.parametrize("place", [(0, 0), (-1, -1)])  # the last one is in no sample
def test_numbers_are_stored_in_16_bits_if_none_of_them_changes(
    number: float, stored: str, place: tuple[int, int]
) -> None:
    numbers = np.full((3, 500), -0.5, np.float32)
    numbers[place] = number
    name, array = in_half(numbers)
    assert name == stored
    bits = {"bfloat16": lambda: array.astype(np.uint32) << 16}.get(
        name, lambda: array.astype(np.float32).view(np.uint32)
    )()
    assert_array_equal(bits, numbers.view(np.uint32))


def test_numbers_of_both_16_bit_types_stay_whole() -> None:
    numbers = np.array([[BFLOAT16, FLOAT16]])
    assert in_half(numbers) == ("whole", numbers)


def test_only_kernels_that_split_floats_read_whole_weights() -> None:
    weight, bias = np.ones((32, 64), np.float32), np.zeros(32, np.float32)
    stored = {
        isa: WeightPacker(isa, Packing("float32")).matrix(weight, bias, "layer").stored
        for isa in ("amx", "bf16", "avx2", "neon")
    }
    assert stored == {"amx": 0, "bf16": 2, "avx2": 2, "neon": 2}


def test_panels_of_gate_and_up_alternate() -> None:
    gate = np.arange(20, dtype=np.float32)
    mixed = interleave_panels(gate, gate + 100)
    assert_array_equal(mixed[:16], gate[:16])
    assert_array_equal(mixed[16:32], gate[:16] + 100)
    assert_array_equal(mixed[32:36], gate[16:])
    assert_array_equal(mixed[36:48], 0)
    assert_array_equal(mixed[48:52], gate[16:] + 100)


def test_lines_of_levels_become_the_halves_of_bytes() -> None:
    levels = four_bit_levels(short_sums=False)
    numbers = np.random.default_rng(0).integers(0, 16, (6, 64))
    packed = to_four_bits(levels[numbers].reshape(3, 2, 16, 4), levels)
    assert packed.dtype == np.uint8
    assert_array_equal(packed & 15, numbers[::2])
    assert_array_equal(packed >> 4, numbers[1::2])
