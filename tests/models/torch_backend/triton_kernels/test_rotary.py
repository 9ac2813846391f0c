"""Tests of rotation in place in Triton's interpreter, beside that of torch."""

import pytest
import torch

from embedwell_models.positions.schemes import Rotary, Scaling
from embedwell_models.torch_backend.position_hooks import Rotary as Hooks
from embedwell_models.torch_backend.sequence_layout import SequenceLayout
from embedwell_models.torch_backend.triton_kernels.rotary import rotate_in_place

pytestmark = pytest.mark.interpreter
CPU = torch.device("cpu")


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize(("heads", "size", "dim"), [(1, 4, 4), (3, 20, 12), (5, 64, 64)])
@pytest.mark.parametrize("lengths", [[1], [5, 1, 8], [3] * 40], ids=str)
def test_queries_and_keys_are_turned_as_by_torch(
    interleaved: bool, heads: int, size: int, dim: int, lengths: list[int]
) -> None:
    # Beyond four tokens the angles depend on the length of the text.
    scaling = Scaling(kind="dynamic", factor=2.0, original=4)
    scheme = Rotary(dim=dim, interleaved=interleaved, scaling=scaling)
    layout = SequenceLayout(lengths, CPU)
    noise = torch.Generator().manual_seed(dim)
    qkv = torch.randn(layout.rows, heads + 2, size, generator=noise)
    expected = qkv.clone()
    expected[:, : heads + 1] = Hooks(scheme).rotate(qkv[:, : heads + 1], layout)
    found = Hooks(scheme, rotate_in_place).rotate(qkv[:, : heads + 1], layout)
    assert found.data_ptr() == qkv.data_ptr()
    torch.testing.assert_close(qkv, expected, atol=2e-6, rtol=1e-5)


def test_a_row_that_is_not_finite_harms_no_other() -> None:
    heads = torch.randn(3, 2, 4)
    heads[1, 0, 3] = float("nan")
    turned = rotate_in_place(heads, torch.ones(3, 2), torch.ones(3, 2), interleaved=False)
    assert turned.isfinite().all(dim=(1, 2)).tolist() == [True, False, True]


def test_without_rows_nothing_is_turned() -> None:
    table = torch.zeros(0, 2)
    assert rotate_in_place(torch.empty(0, 2, 4), table, table, interleaved=False).shape[0] == 0
