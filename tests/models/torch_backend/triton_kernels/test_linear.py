"""Linear layers of a GPU and their kernels in Triton's interpreter, compared with torch."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from embedwell_models.encoder.batch_shape import BatchShape
from embedwell_models.torch_backend.linear import ACTIVATIONS, LinearFactory, TorchLinearFactory
from embedwell_models.torch_backend.sequence_layout import SequenceLayout
from embedwell_models.torch_backend.triton_kernels.linear import (
    GpuLinearFactory,
    gated,
    row_maximum,
)
from tests.models.torch_backend.triton_kernels.packed import LENGTHS, ends_of, rows_of, split

pytestmark = pytest.mark.interpreter
CPU = torch.device("cpu")
FACTORY = GpuLinearFactory(CPU, torch.float16)
EXACT: LinearFactory = TorchLinearFactory(CPU, torch.float32)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize(("rows", "width"), [(0, 8), (1, 1), (5, 33), (2, 1025)])
def test_it_is_the_activation_times_the_rest(activation: str, rows: int, width: int) -> None:
    both = torch.randn(rows, 2 * width, generator=torch.Generator().manual_seed(rows)) * 3
    gate, up = both.chunk(2, dim=1)
    expected = ACTIVATIONS[activation].function(gate) * up
    torch.testing.assert_close(gated(both, activation), expected, atol=3e-6, rtol=1e-5)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_what_is_not_finite_stays_so_in_its_place(activation: str) -> None:
    both = torch.tensor([[1.0, float("nan"), 1.0, 1.0], [1.0, 2.0, float("inf"), 1.0]])
    assert gated(both, activation).isfinite().tolist() == [[True, False], [False, True]]


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


def numbers(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(len(shape))).half().float()


X, RESIDUAL = numbers(6, 16), numbers(6, 8) * 3
GATE, UP = (numbers(8, 16) / 4, numbers(8)), (-numbers(8, 16) / 2, 2 * numbers(8))


@pytest.mark.parametrize("residual", [None, RESIDUAL], ids=["alone", "residual"])
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("is_gated", [False, True])
def test_a_layer_computes_what_the_plain_one_does(
    is_gated: bool, activation: str, residual: Tensor | None
) -> None:
    mine, plain = (
        each.gated(GATE, UP, activation) if is_gated else each(*UP, activation)
        for each in (FACTORY, EXACT)
    )
    y = mine(X.half(), residual=None if residual is None else residual.half())
    assert y.dtype == torch.float16
    torch.testing.assert_close(y.float(), plain(X, residual=residual), atol=2e-2, rtol=5e-3)


def test_the_maximum_over_rows_is_that_of_the_plain_layer() -> None:
    layout = SequenceLayout([1, 0, 5], CPU, shape=BatchShape(8, 16, 8))
    found = FACTORY.row_maximum(*UP)(X.half(), layout)
    expected = EXACT.row_maximum(*UP)(X, layout)
    torch.testing.assert_close(found.float(), expected, atol=1e-3, rtol=1e-3)
    assert F.relu(found).equal(found)
