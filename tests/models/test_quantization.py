"""Tests of weights rounded to 8-bit integers."""

import torch

from models.quantization import quantize


def weight() -> torch.Tensor:
    return torch.randn(32, 64, generator=torch.Generator().manual_seed(1))


def test_a_weight_is_rounded_to_within_half_a_step_of_its_row() -> None:
    exact = weight()
    rounded = quantize(exact, torch.ones(64))
    found = rounded.weight * rounded.scales[:, None] * rounded.smoothing
    assert ((found - exact).abs() <= 0.5001 * rounded.scales[:, None] * rounded.smoothing).all()
    assert rounded.weight.abs().amax(dim=1).eq(127).all()


def test_smoothing_and_weight_cancel_out() -> None:
    exact, peaks = weight(), torch.linspace(0.01, 40, 64)
    rounded = quantize(exact, peaks)
    x = torch.randn(5, 64, generator=torch.Generator().manual_seed(2)) * peaks
    found = (x * rounded.smoothing) @ (rounded.weight * rounded.scales[:, None]).T
    expected = x @ exact.T
    assert (found - expected).norm() < 0.01 * expected.norm()


def test_smoothing_evens_out_inputs_of_different_size() -> None:
    peaks = torch.ones(64)
    peaks[7] = 100
    spread = peaks * quantize(weight(), peaks).smoothing
    assert spread[7] < 15 * spread.median()


def test_inputs_and_rows_of_nothing_but_zero_stay_finite() -> None:
    nothing = weight()
    nothing[3], nothing[:, 5] = 0, 0
    rounded = quantize(nothing, torch.zeros(64))
    assert rounded.smoothing.isfinite().all() and rounded.scales.isfinite().all()
    assert not rounded.weight[3].any()


def test_sums_are_those_of_the_integers() -> None:
    rounded = quantize(weight(), torch.ones(64))
    assert rounded.sums.tolist() == [sum(row) for row in rounded.weight.tolist()]
