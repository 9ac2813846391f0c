"""Tests of linear layers for GPUs, whose kernels run in Triton's interpreter."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from embedwell_models.encoder.batch_shape import BatchShape
from embedwell_models.torch_backend.gpu_linear import GpuLinearFactory
from embedwell_models.torch_backend.linear import ACTIVATIONS, LinearFactory, TorchLinearFactory
from embedwell_models.torch_backend.sequence_layout import SequenceLayout

pytestmark = pytest.mark.interpreter
CPU = torch.device("cpu")
FACTORY = GpuLinearFactory(CPU, torch.float16)
EXACT: LinearFactory = TorchLinearFactory(CPU, torch.float32)


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
