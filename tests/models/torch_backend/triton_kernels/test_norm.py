"""Tests of sum and norm in Triton's interpreter, compared with torch."""

from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

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


class Allocations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Mode that counts tensors that are allocated for results."""

    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += func is torch.ops.aten.empty_like.default
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("kind", ["layer", "none"])
def test_a_sum_that_is_not_read_is_not_written(kind: str) -> None:
    parts, norm = Sum(torch.randn(3, 8), torch.randn(3, 8)), build(kind, 8, 1)
    with Allocations() as both:  # type: ignore[no-untyped-call]
        _, expected = sum_and_norm(parts, norm)
    with Allocations() as alone:  # type: ignore[no-untyped-call]
        _, normed = sum_and_norm(parts, norm, keeps_sum=False)
    assert torch.equal(normed, expected)
    assert (both.count, alone.count) == ((2, 1) if kind == "layer" else (1, 1))


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
