"""Tests of gated activations in Triton's interpreter, beside torch."""

import pytest
import torch

from embedwell_models.torch_backend.linear import ACTIVATIONS
from embedwell_models.torch_backend.triton_kernels.gated import gated

pytestmark = pytest.mark.interpreter


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
