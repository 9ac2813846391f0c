"""Tests of the maximum over the rows of texts in Triton's interpreter, beside torch."""

import pytest
import torch
import torch.nn.functional as F

from embedwell_models.torch_backend.triton_kernels.row_maximum import row_maximum
from tests.models.torch_backend.triton_kernels.packed import LENGTHS, ends_of, rows_of, split

pytestmark = pytest.mark.interpreter


def matrix(outputs: int, width: int) -> tuple[torch.Tensor, torch.Tensor]:
    noise = torch.Generator().manual_seed(1)
    return torch.randn(outputs, width, generator=noise), torch.randn(outputs, generator=noise)


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
@pytest.mark.parametrize(("outputs", "width"), [(1, 16), (131, 70)])
def test_it_is_the_largest_of_each_text(lengths: list[int], outputs: int, width: int) -> None:
    x, (weight, bias) = rows_of(lengths, width), matrix(outputs, width)
    found = row_maximum(x, weight, bias, ends_of(lengths))
    for row, text in zip(found, split(x, lengths), strict=True):
        logits = torch.cat([F.linear(text, weight, bias), torch.zeros(1, outputs)])
        torch.testing.assert_close(row, logits.amax(dim=0), atol=1e-5, rtol=1e-5)


def test_half_precision_is_summed_in_float32() -> None:
    lengths = [70, 3]
    x, (weight, bias) = rows_of(lengths, 48).half(), matrix(20, 48)
    found = row_maximum(x, weight.half(), bias, ends_of(lengths))
    for row, text in zip(found, split(x, lengths), strict=True):
        logits = F.linear(text.float(), weight.half().float(), bias).relu()
        torch.testing.assert_close(row, logits.amax(dim=0), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_text_that_is_not_finite_has_no_maximum_and_the_others_have(value: float) -> None:
    lengths = [2, 40, 3]
    x, (weight, bias) = rows_of(lengths, 16), matrix(20, 16)
    split(x, lengths)[1][20, 1] = value
    found = row_maximum(x, weight, bias, ends_of(lengths))
    assert found.isfinite().all(dim=1).tolist() == [True, False, True]
    assert found[1].isnan().all()
