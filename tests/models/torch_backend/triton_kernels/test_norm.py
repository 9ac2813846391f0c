"""Tests of sum and norm in Triton's interpreter, beside torch."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from embedwell_models.torch_backend.triton_kernels.norm import NormWeights, sum_and_norm

pytestmark = pytest.mark.interpreter
EPS = 1e-5


def weights(kind: str, width: int, seed: int) -> NormWeights | None:
    noise = torch.Generator().manual_seed(seed)
    weight, bias = (torch.randn(width, generator=noise) for _ in range(2))
    if kind == "none":
        return None
    return NormWeights(weight, bias if kind == "layer" else None, EPS)


def twin(x: Tensor, norm: NormWeights | None) -> Tensor:
    if norm is None:
        return x
    if norm.bias is None:
        return F.rms_norm(x, norm.weight.shape, norm.weight, norm.eps)
    return F.layer_norm(x, norm.weight.shape, norm.weight, norm.bias, norm.eps)


@pytest.mark.parametrize("kind", ["layer", "rms", "none"])
@pytest.mark.parametrize("branch_kind", ["none", "rms", "layer"])
@pytest.mark.parametrize("rows", [0, 1, 5])
@pytest.mark.parametrize("width", [1, 33, 64])
def test_sum_and_norm_are_those_of_torch(
    kind: str, branch_kind: str, rows: int, width: int
) -> None:
    noise = torch.Generator().manual_seed(width)
    x, branch = (torch.randn(rows, width, generator=noise) * 3 + 1 for _ in range(2))
    norm, inner = weights(kind, width, 1), weights(branch_kind, width, 2)
    total, normed = sum_and_norm(x, branch, norm, inner)
    expected = x + twin(branch, inner)
    torch.testing.assert_close(total, expected, atol=3e-6, rtol=1e-5)
    torch.testing.assert_close(normed, twin(expected, norm), atol=3e-6, rtol=1e-5)


def test_without_a_residual_the_branch_is_normalised() -> None:
    branch, norm = torch.randn(3, 20), weights("layer", 20, 3)
    _, normed = sum_and_norm(None, branch, norm, keep_sum=False)
    torch.testing.assert_close(normed, twin(branch, norm), atol=3e-6, rtol=1e-5)


def test_half_precision_is_rounded_once() -> None:
    x, branch = torch.randn(7, 48).half(), torch.randn(7, 48).half()
    norm = NormWeights(torch.randn(48).half(), torch.randn(48).half(), EPS)
    exact = NormWeights(norm.weight.float(), norm.bias.float(), EPS)  # type: ignore[union-attr]
    total, normed = sum_and_norm(x, branch, norm)
    summed = x.float() + branch.float()
    assert torch.equal(total, summed.half())
    torch.testing.assert_close(normed, twin(summed, exact).half(), atol=1e-6, rtol=1e-3)


def test_float32_becomes_half() -> None:
    x, branch, norm = torch.randn(2, 16), torch.randn(2, 16), weights("layer", 16, 5)
    _, normed = sum_and_norm(x, branch, norm, keep_sum=False, dtype=torch.float16)
    assert normed.dtype == torch.float16
    torch.testing.assert_close(normed.float(), twin(x + branch, norm), atol=2e-3, rtol=2e-3)


def test_a_row_that_is_not_finite_harms_no_other() -> None:
    x, norm = torch.randn(3, 8), weights("layer", 8, 4)
    x[1, 2] = float("nan")
    _, normed = sum_and_norm(x, torch.randn(3, 8), norm)
    assert normed.isfinite().all(dim=1).tolist() == [True, False, True]
