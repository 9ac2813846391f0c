"""Tests of the rotation of inputs and weights in int8."""

import numpy as np
import pytest

from embedwell_models.cpu_backend.quantization import quantize_weight
from embedwell_models.cpu_backend.rotation import hadamard, mixed, rotate, signs
from embedwell_models.vectors import Floats

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
