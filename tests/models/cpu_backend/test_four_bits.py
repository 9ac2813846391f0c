"""Weights of four bits in the kernels: the products of int8 with the levels that they stand for."""

from ctypes import POINTER, c_uint8, cast

import numpy as np
import pytest

from embedwell_models.cpu_backend.library import SHORT_SUMS
from embedwell_models.cpu_backend.linear import KernelLinearFactory
from embedwell_models.cpu_backend.prepack import Packing, aligned_copy
from embedwell_models.cpu_backend.quantization import four_bit_levels
from embedwell_models.encoder.batch import Batch
from embedwell_models.vectors import Floats
from tests.models.built import BUILT
from tests.models.cpu_backend.pair import Pair, batch, error
from tests.models.threads import use_threads

INT8 = [isa for isa, dtype in (case.values for case in BUILT) if dtype == "int8"]
each_isa = pytest.mark.parametrize("isa", INT8)
WHOLE = 0  # of `Stored` in kernels/kinds.h
KINDS = ["bert", "gemma", "experts", "lfm2", "qwen3.5"]


def numbers(*shape: int) -> Floats:
    return np.random.default_rng(sum(shape)).standard_normal(shape, dtype=np.float32)


@each_isa
@pytest.mark.parametrize("depth", [64, 192, 1024])
@pytest.mark.parametrize("width", [32, 96])
@pytest.mark.parametrize("rows", [1, 3, 28, 100])
def test_a_product_has_the_bytes_of_that_of_8_bit_integers(
    isa: str, depth: int, width: int, rows: int
) -> None:
    packing = Packing("int4", {"layer": np.ones(depth, np.float32)})
    linear = KernelLinearFactory(isa, packing)(numbers(width, depth), numbers(width), name="layer")
    x = numbers(rows, depth)
    result = linear(x)
    matrix = linear.struct.matrix  # type: ignore[attr-defined] # of the kernels' own class
    expanded = eight_bits(matrix.panels, depth * width, isa)
    matrix.panels, matrix.stored = expanded.ctypes.data, WHOLE
    assert result.any() and result.tobytes() == linear(x).tobytes()


def eight_bits(
    address: int, count: int, isa: str
) -> np.ndarray[tuple[int, ...], np.dtype[np.int8]]:
    """The panels of some weights in memory, as their 8-bit integers."""
    packed = np.ctypeslib.as_array(cast(address, POINTER(c_uint8)), (count // 2,)).reshape(-1, 64)
    lines = np.stack([packed & 15, packed >> 4], axis=1)
    return aligned_copy(four_bit_levels(isa in SHORT_SUMS)[lines])


@each_isa
@pytest.mark.parametrize("kind", KINDS)
def test_an_encoder_is_near_its_twin_and_a_text_has_the_same_bytes_in_any_batch(
    isa: str, kind: str
) -> None:
    pair = Pair.of(isa, "int4", kind)
    lengths = [17, 1, 90, 33]
    states = pair.ours.states(batch(lengths), pair.config.num_layers)
    assert error(states, pair.twin.states(batch(lengths), pair.config.num_layers)) < 0.4
    for threads in (1, 3):
        with use_threads(threads):
            for start, length in zip(np.cumsum([0, *lengths]), lengths, strict=False):
                alone = pair.ours.states(
                    Batch.of([batch(lengths).ids[start : start + length]]), pair.config.num_layers
                )
                assert alone.tobytes() == states[start : start + length].tobytes()
