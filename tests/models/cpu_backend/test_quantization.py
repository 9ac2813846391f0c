"""Tests of weights rounded to 8-bit integers."""

import ctypes

import numpy as np
import pytest

from embedwell_models.cpu_backend.encoder import KernelEncoder
from embedwell_models.cpu_backend.layer_weights import LayerWeights
from embedwell_models.cpu_backend.prepack import Packing
from embedwell_models.cpu_backend.quantization import (
    InputObserver,
    QuantizedWeight,
    four_bit_levels,
    hadamard,
    has_massive_activations,
    mixed,
    quantize_weight,
    rotate,
    signs,
)
from embedwell_models.encoder.threads import single_threaded
from embedwell_models.vectors import Floats
from tests.models.built import BUILT
from tests.models.cpu_backend.pair import Pair, batch
from tests.models.shapes import KINDS

ISAS = [isa for isa, dtype in (case.values for case in BUILT) if dtype == "float32"]


def weight() -> Floats:
    return np.random.default_rng(1).standard_normal((32, 64), dtype=np.float32)


def ones(columns: int = 64) -> Floats:
    return np.ones(columns, np.float32)


def steps(exact: Floats, rounded: QuantizedWeight) -> Floats:
    """The rotated weight in steps of its rows."""
    smooth = exact / rounded.smoothing / np.float32(mixed(exact.shape[1]))
    return rotate(smooth) / rounded.scales[:, None]


def test_a_weight_is_rounded_to_within_half_a_step_of_its_row() -> None:
    exact = weight()
    rounded = quantize_weight(exact, ones(), "up")
    assert np.abs(rounded.weight - steps(exact, rounded)).max() <= 0.5001
    assert (np.abs(rounded.weight).max(axis=1) == 127).all()


@pytest.mark.parametrize("pair", [[1, 1], [-1, -1], [1, -1], [1, 0], [0.3, 0.7]], ids=str)
def test_the_sums_of_two_neighbours_fit_16_bits_where_they_must(pair: list[float]) -> None:
    exact = weight()
    exact[0], exact[1, :2] = 32 * pair, [9 * value for value in pair]
    exact[:2] = rotate(exact[:2]) * signs(64)
    rounded = quantize_weight(exact, ones(), "up", short_sums=True)
    sums = rounded.weight.astype(int).reshape(32, 32, 2).sum(axis=2)
    assert np.abs(255 * sums).max() < 1 << 15 and np.abs(rounded.weight).max() == 127
    assert np.abs(rounded.weight - steps(exact, rounded)).max() <= 0.5001
    assert (rounded.scales <= 2.001 * quantize_weight(exact, ones(), "up").scales).all()


def test_smoothing_and_weight_cancel_out() -> None:
    exact, sizes = weight(), np.linspace(0.01, 40, 64, dtype=np.float32)
    rounded = quantize_weight(exact, sizes, "up")
    x = np.random.default_rng(2).standard_normal((5, 64), np.float32) * sizes
    found = rotate(x * rounded.smoothing) @ (rounded.weight * rounded.scales[:, None]).T
    expected = x @ exact.T
    assert np.linalg.norm(found - expected) < 0.01 * np.linalg.norm(expected)


def test_smoothing_evens_out_inputs_of_different_size() -> None:
    sizes = ones()
    sizes[7] = 100
    spread = np.abs(sizes * quantize_weight(weight(), sizes, "up").smoothing)
    assert spread[7] < 20 * np.median(spread)


@pytest.mark.parametrize(("name", "share"), [("qkv", 0.5), ("up", 0.4), ("down", 0.3)])
def test_a_weight_takes_over_a_products_share_of_the_inputs_spread(name: str, share: float) -> None:
    even, sizes = np.ones((32, 64), np.float32), ones()
    sizes[7] = 100
    smoothing = quantize_weight(even, sizes, f"layers.3.{name}").smoothing
    assert np.isclose(smoothing[0] / smoothing[7], 100.0**share)


def test_a_column_is_as_large_as_all_its_rows_by_their_lengths_say() -> None:
    exact = np.zeros((32, 64), np.float32)
    exact[0, :2], exact[1, 2:4], exact[2, 4] = 30, 3, 3  # lengths of 30√2, 3√2 and 3
    exact[3, 4:6] = 3
    smoothing = quantize_weight(exact, ones(), "up").smoothing
    sizes = np.array([30**3 * 2**0.5, 3**3 * 2**0.5, 3**3 * (1 + 2**0.5)]) ** 0.5
    np.testing.assert_allclose(
        smoothing[[0, 2, 4]] / smoothing[0], (sizes / sizes[0]) ** 0.6, rtol=1e-5
    )


def test_a_weight_of_many_blocks_is_rounded_as_its_rows_are() -> None:
    exact = np.random.default_rng(1).standard_normal((3000, 1024), dtype=np.float32)
    sizes = np.linspace(0.01, 40, 1024, dtype=np.float32)
    rounded = quantize_weight(exact, sizes, "up")
    smoothing = np.abs(rounded.smoothing)
    lengths = np.linalg.norm(exact.astype(np.float64), axis=1)[:, None]
    columns = np.sqrt((exact.astype(np.float64) ** 2 * lengths).mean(axis=0))
    np.testing.assert_allclose(smoothing, columns**0.6 / sizes**0.4, rtol=1e-5)
    found = steps(exact, rounded)
    np.testing.assert_allclose(np.abs(found).max(axis=1), 127, rtol=1e-4)
    assert np.abs(rounded.weight - found).max() < 0.502


def test_massive_activations_are_those_of_one_input_of_a_networks_second_product() -> None:
    even, large, padded = np.full(9, 2.0, np.float32), np.ones(9, np.float32), ones(9)
    large[4], padded[4], padded[5:] = 51, 49, 0
    assert has_massive_activations({"layers.0.down": even, "layers.1.down": large})
    assert not has_massive_activations({"layers.0.down": even, "layers.0.up": large})
    assert not has_massive_activations({"layers.0.down": padded, "layers.1.down": 0 * even})


def test_inputs_and_rows_of_nothing_but_zero_stay_finite() -> None:
    nothing = weight()
    nothing[3], nothing[:, 5] = 0, 0
    rounded = quantize_weight(nothing, 0 * ones(), "up")
    assert np.isfinite(rounded.smoothing).all() and np.isfinite(rounded.scales).all()
    assert not rounded.weight[3].any()


def test_a_row_of_zeros_has_a_scale_that_can_be_divided_by_and_gives_its_bias() -> None:
    nothing = weight()
    nothing[3] = 0
    rounded = quantize_weight(nothing, ones(), "up")
    assert (rounded.scales > 0).all() and np.isfinite(1 / rounded.scales).all()
    assert not (rounded.weight * rounded.scales[:, None])[3].any()


def test_sums_are_those_of_the_integers() -> None:
    rounded = quantize_weight(weight(), ones(), "up")
    assert rounded.sums.tolist() == [sum(row) for row in rounded.weight.tolist()]


@pytest.mark.parametrize("kernels", ISAS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.full(after=7)
def test_the_kernels_observe_the_inputs_that_torch_has(kernels: str, kind: str) -> None:
    pair, observer = Pair.of(kernels, "float32", kind), InputObserver()
    stack = LayerWeights(pair.config, pair.weights, kernels, Packing("float32", observer=observer))
    observed = KernelEncoder(pair.inputs, stack, pair.bias, pair.factorized)
    texts, layers = batch([40, 8]), pair.config.num_layers
    with single_threaded():
        states = observed.states(texts, layers)
    assert np.array_equal(states, pair.ours.states(texts, layers))
    magnitudes = observer.magnitudes()
    sizes = {name: size for name, size in pair.sizes.items() if not name.endswith(".router")}
    assert magnitudes.keys() == sizes.keys()  # a router stays in float32
    for name, expected in sizes.items():
        found, atol = magnitudes[name][: len(expected)], 1e-5 * expected.max()
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=atol)
        assert not magnitudes[name][len(expected) :].any()


def test_an_input_of_few_rows_counts_as_the_mean_of_all_inputs_in_part() -> None:
    observer = InputObserver()
    for name, rows in (("none", 0), ("one", 1), ("many", 16)):
        address = observer.address(name, 4)
        sums = np.ctypeslib.as_array(ctypes.cast(address, ctypes.POINTER(ctypes.c_double)), (5,))
        sums[:] = [rows * 3.0**4, rows, 0, 0, rows]
    found = observer.magnitudes()
    mean = (3.0**4 + 1) / 4
    assert not found["none"].any()
    few = np.array([3.0**4 + 15 * mean, 1 + 15 * mean, 15 * mean, 15 * mean]) / 16
    np.testing.assert_allclose(found["one"], few**0.25, rtol=1e-6)
    np.testing.assert_allclose(found["many"], [3, 1, 0, 0], rtol=1e-6)


@pytest.mark.parametrize(("short_sums", "largest"), [(False, 127), (True, 64)])
def test_sixteen_levels_are_symmetric_and_fit_the_products(short_sums: bool, largest: int) -> None:
    levels = four_bit_levels(short_sums)
    assert len({*levels.tolist()}) == 16 and levels.max() == largest
    np.testing.assert_array_equal(levels, -levels[::-1])
    np.testing.assert_array_equal(levels, np.sort(levels))
    pairs = np.abs(levels[:, None].astype(int) + levels)
    assert not short_sums or 255 * pairs.max() < 1 << 15


@pytest.mark.parametrize("short_sums", [False, True])
def test_a_weight_in_four_bits_loses_what_the_levels_of_a_normal_distribution_lose(
    short_sums: bool,
) -> None:
    exact = np.random.default_rng(1).standard_normal((300, 1024), dtype=np.float32)
    levels = four_bit_levels(short_sums)
    rounded = quantize_weight(exact, ones(1024), "up", short_sums, levels)
    assert {*rounded.weight.ravel().tolist()} == {*levels.tolist()}
    lost = (steps(exact, rounded) - rounded.weight) * rounded.scales[:, None]
    energy = np.square(steps(exact, rounded) * rounded.scales[:, None]).sum()
    assert np.square(lost).sum() / energy == pytest.approx(0.0095, rel=0.03)  # Max 1960: 0.009497


def test_a_row_of_zeros_in_four_bits_gives_its_bias() -> None:
    nothing = weight()
    nothing[3] = 0
    rounded = quantize_weight(nothing, ones(), "up", levels=four_bit_levels(short_sums=False))
    assert np.isfinite(rounded.scales).all()
    assert not (rounded.weight * rounded.scales[:, None])[3].any()


WIDTHS = {64: 16, 128: 32, 192: 16, 384: 32, 768: 64, 1536: 128, 2048: 512, 4096: 1024}


def rows(width: int) -> Floats:
    return np.random.default_rng(1).standard_normal((5, width), dtype=np.float32)


@pytest.mark.parametrize("width", WIDTHS)
def test_a_product_of_rotated_rows_is_that_of_the_rows(width: int) -> None:
    x = rows(width)
    assert mixed(width) == WIDTHS[width]
    found = rotate(x) @ rotate(x).T / mixed(width)
    np.testing.assert_allclose(found, x @ x.T, rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(rotate(rotate(x)), x * mixed(width), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("width", WIDTHS)
def test_a_number_is_spread_over_as_many_as_are_mixed(width: int) -> None:
    one = np.zeros((1, width), np.float32)
    one[0, width // 2 + 3] = 1
    rotated = np.abs(rotate(one))
    assert {*rotated.flatten()} <= {0, 1} and rotated.sum() == mixed(width)


def test_hadamard_matrices_are_orthogonal_and_of_signs() -> None:
    for size in (1, 2, 8, 64):
        matrix = hadamard(size)
        assert (np.abs(matrix) == 1).all() and (matrix @ matrix.T == size * np.eye(size)).all()


@pytest.mark.parametrize("width", [width for width in WIDTHS if mixed(width) > 16])
def test_a_mean_of_all_numbers_is_spread_too(width: int) -> None:
    mean = np.ones((1, width), np.float32)
    plain, signed = (np.abs(rotate(x)).max() for x in (mean, mean * signs(width)))
    assert plain == mixed(width) and signed <= 4 * (2 * mixed(width) / 4) ** 0.5


def product_error(x: Floats, weight: Floats, sizes: Floats) -> float:
    """The relative error of a product whose inputs and weights have 8 bits."""
    quantized = quantize_weight(weight, sizes, "up")
    smooth = rotate(x * quantized.smoothing)
    low, high = (part(smooth, axis=1)[:, None] for part in (np.min, np.max))
    step = (high - low) / 255
    inputs = np.rint((smooth - low) / step) * step + low
    found = inputs @ (quantized.weight * quantized.scales[:, None]).T
    return float(np.linalg.norm(found - x @ weight.T) / np.linalg.norm(x @ weight.T))


def test_large_numbers_in_other_places_of_each_row_cost_little() -> None:
    noise = np.random.default_rng(2)
    x, weight = rows(1536), noise.standard_normal((64, 1536), dtype=np.float32)
    x[np.arange(5), [3, 700, 1100, 40, 1500]] = 60  # alone, they leave 4 steps for the others
    assert product_error(x, weight, np.ones(1536, np.float32)) < 0.03
