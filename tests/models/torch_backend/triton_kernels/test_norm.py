"""Tests of sum and norm in Triton's interpreter, beside torch."""

import pytest
import torch

from embedwell_models.torch_backend.norm import LayerNorm, Norm, RMSNorm, Sum, identity
from embedwell_models.torch_backend.norm import sum_and_norm as on_torch
from embedwell_models.torch_backend.triton_kernels.norm import sum_and_norm

pytestmark = pytest.mark.interpreter
EPS = 1e-5


def build(kind: str, width: int, seed: int) -> Norm:
    noise = torch.Generator().manual_seed(seed)
    weight, bias = (torch.randn(width, generator=noise) for _ in range(2))
    norms: dict[str, Norm] = {
        **{"layer": LayerNorm(weight, bias, EPS), "rms": RMSNorm(weight, EPS)},
        "none": identity,
    }
    return norms[kind]


@pytest.mark.parametrize("kind", ["layer", "rms", "none"])
@pytest.mark.parametrize("branch_kind", ["none", "rms", "layer"])
@pytest.mark.parametrize("has_residual", [False, True])
@pytest.mark.parametrize("rows", [0, 1, 5])
@pytest.mark.parametrize("width", [1, 33, 64])
def test_sum_and_norm_are_those_of_torch(
    kind: str, branch_kind: str, has_residual: bool, rows: int, width: int
) -> None:
    noise = torch.Generator().manual_seed(width)
    residual, branch = (torch.randn(rows, width, generator=noise) * 3 + 1 for _ in range(2))
    parts = Sum(branch, residual if has_residual else None, build(branch_kind, width, 2))
    norm = build(kind, width, 1)
    for found, expected in zip(sum_and_norm(parts, norm), on_torch(parts, norm), strict=True):
        torch.testing.assert_close(found, expected, atol=3e-6, rtol=1e-5)


def test_half_precision_is_rounded_once() -> None:
    x, branch = torch.randn(7, 48).half(), torch.randn(7, 48).half()
    weight, bias = torch.randn(48).half(), torch.randn(48).half()
    total, normed = sum_and_norm(Sum(branch, x), LayerNorm(weight, bias, EPS))
    exact = Sum(branch.float(), x.float())
    summed, expected = on_torch(exact, LayerNorm(weight.float(), bias.float(), EPS))
    assert torch.equal(total, summed.half())
    torch.testing.assert_close(normed, expected.half(), atol=1e-6, rtol=1e-3)


def test_a_row_that_is_not_finite_harms_no_other() -> None:
    x = torch.randn(3, 8)
    x[1, 2] = float("nan")
    _, normed = sum_and_norm(Sum(torch.randn(3, 8), x), build("layer", 8, 4))
    assert normed.isfinite().all(dim=1).tolist() == [True, False, True]


def test_other_norms_are_refused() -> None:
    with pytest.raises(KeyError):
        sum_and_norm(Sum(torch.zeros(1, 2)), torch.relu)
