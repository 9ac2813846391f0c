"""Tests of rotation by a table in Triton's interpreter, beside that of torch."""

import pytest
import torch

from embedwell_models.positions import tables
from embedwell_models.positions.schemes import Rotary
from embedwell_models.torch_backend.position_hooks import Rotary as Twin
from embedwell_models.torch_backend.sequence_layout import SequenceLayout
from embedwell_models.torch_backend.triton_kernels.rotary import rotate_in_place

pytestmark = pytest.mark.interpreter
CPU = torch.device("cpu")


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize(("heads", "size", "dim"), [(1, 2, 2), (3, 20, 12), (5, 64, 64)])
@pytest.mark.parametrize("lengths", [[1], [5, 1, 8], [3] * 40], ids=str)
def test_queries_and_keys_are_turned_as_by_torch(
    interleaved: bool, heads: int, size: int, dim: int, lengths: list[int]
) -> None:
    scheme = Rotary(dim=dim, interleaved=interleaved)
    layout = SequenceLayout(lengths, CPU)
    noise = torch.Generator().manual_seed(dim)
    qkv = torch.randn(layout.rows, heads + 2, size, generator=noise)
    query, key, value = torch.split(qkv.clone(), [heads, 1, 1], dim=1)
    expected = torch.cat([*Twin(scheme).rotate(query, key, layout), value], dim=1)
    cos, sin = tables.rotary(torch.arange(max(lengths)).numpy(), scheme)
    rotate_in_place(
        qkv[:, : heads + 1],
        layout.positions.to(torch.int32),
        torch.from_numpy(cos),
        torch.from_numpy(sin),
        interleaved=interleaved,
    )
    torch.testing.assert_close(qkv, expected, atol=2e-6, rtol=1e-5)


def test_without_rows_nothing_is_turned() -> None:
    table = torch.zeros(1, 2)
    rotate_in_place(torch.empty(0, 2, 4), torch.empty(0), table, table, interleaved=False)
