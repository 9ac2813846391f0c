"""Tests of weights rounded to 8-bit integers."""

import pytest
import torch

from embedwell_models.torch_backend.quantization import quantize_weight


def weight() -> torch.Tensor:
    return torch.randn(32, 64, generator=torch.Generator().manual_seed(1))


def test_a_weight_is_rounded_to_within_half_a_step_of_its_row() -> None:
    exact = weight()
    rounded = quantize_weight(exact, torch.ones(64), "up")
    found = rounded.weight * rounded.scales[:, None] * rounded.smoothing
    assert ((found - exact).abs() <= 0.5001 * rounded.scales[:, None] * rounded.smoothing).all()
    assert rounded.weight.abs().amax(dim=1).eq(127).all()


def test_smoothing_and_weight_cancel_out() -> None:
    exact, sizes = weight(), torch.linspace(0.01, 40, 64)
    rounded = quantize_weight(exact, sizes, "up")
    x = torch.randn(5, 64, generator=torch.Generator().manual_seed(2)) * sizes
    found = (x * rounded.smoothing) @ (rounded.weight * rounded.scales[:, None]).T
    expected = x @ exact.T
    assert (found - expected).norm() < 0.01 * expected.norm()


def test_smoothing_evens_out_inputs_of_different_size() -> None:
    sizes = torch.ones(64)
    sizes[7] = 100
    spread = sizes * quantize_weight(weight(), sizes, "up").smoothing
    assert spread[7] < 20 * spread.median()


@pytest.mark.parametrize(("name", "share"), [("qkv", 0.5), ("up", 0.4), ("down", 0.3)])
def test_a_weight_takes_over_a_products_share_of_the_inputs_spread(name: str, share: float) -> None:
    even, sizes = torch.ones(32, 64), torch.ones(64)
    sizes[7] = 100
    smoothing = quantize_weight(even, sizes, f"layers.3.{name}").smoothing
    assert torch.isclose(smoothing[0] / smoothing[7], torch.tensor(100.0) ** share)


def test_a_column_is_as_large_as_all_its_rows_by_their_lengths_say() -> None:
    exact = torch.zeros(32, 64)
    exact[0, :2], exact[1, 2:4], exact[2, 4] = 30, 3, 3  # lengths of 30√2, 3√2 and 3
    exact[3, 4:6] = 3
    smoothing = quantize_weight(exact, torch.ones(64), "up").smoothing
    sizes = torch.tensor([30**3 * 2**0.5, 3**3 * 2**0.5, 3**3 * (1 + 2**0.5)]) ** 0.5
    expected = (sizes / sizes[0]) ** 0.6
    torch.testing.assert_close(smoothing[[0, 2, 4]] / smoothing[0], expected)


def test_inputs_and_rows_of_nothing_but_zero_stay_finite() -> None:
    nothing = weight()
    nothing[3], nothing[:, 5] = 0, 0
    rounded = quantize_weight(nothing, torch.zeros(64), "up")
    assert rounded.smoothing.isfinite().all() and rounded.scales.isfinite().all()
    assert not rounded.weight[3].any()


def test_a_row_of_zeros_has_a_scale_that_can_be_divided_by_and_gives_its_bias() -> None:
    nothing = weight()
    nothing[3] = 0
    rounded = quantize_weight(nothing, torch.ones(64), "up")
    assert rounded.scales.gt(0).all() and (1 / rounded.scales).isfinite().all()
    assert (rounded.weight * rounded.scales[:, None])[3].eq(0).all()


def test_sums_are_those_of_the_integers() -> None:
    rounded = quantize_weight(weight(), torch.ones(64), "up")
    assert rounded.sums.tolist() == [sum(row) for row in rounded.weight.tolist()]
