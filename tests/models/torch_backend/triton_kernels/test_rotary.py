"""Tests of rotation in place in Triton's interpreter, compared with that of torch."""

import pytest
import torch
from torch import Tensor

from embedwell_models.positions.schemes import Rotary, Scaling
from embedwell_models.torch_backend.norm import (
    AllHeadsNorm,
    HeadNorms,
    LayerNorm,
    Norm,
    RMSNorm,
    identity,
)
from embedwell_models.torch_backend.rotary import Rotary as Hooks
from embedwell_models.torch_backend.sequence_layout import SequenceLayout
from embedwell_models.torch_backend.triton_kernels.rotary import rotate_in_place

pytestmark = pytest.mark.interpreter
CPU = torch.device("cpu")


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize(("heads", "size", "dim"), [(1, 4, 4), (3, 20, 12), (5, 64, 64)])
@pytest.mark.parametrize("lengths", [[1], [5, 1, 8], [3] * 9], ids=str)
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


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize(("size", "dim", "interleaved"), [(4, 4, False), (20, 12, True)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_norms_of_heads_are_computed_before(
    centred: bool, size: int, dim: int, interleaved: bool, dtype: torch.dtype
) -> None:
    noise = torch.Generator().manual_seed(size)
    parameters = torch.randn(2, 2, size, generator=noise).to(dtype)
    scheme, layout = Rotary(dim=dim, interleaved=interleaved), SequenceLayout([5, 1, 8], CPU)
    qkv = (torch.randn(layout.rows, 3 + 2 + 2, size, generator=noise) + 1).to(dtype)
    query_norm, key_norm = norms_of(parameters.float(), centred)
    query, key = torch.split(qkv[:, :5].float(), [3, 2], dim=1)
    exact = Hooks(scheme).rotate(torch.cat([query_norm(query), key_norm(key)], dim=1), layout)
    value = qkv[:, 5:].clone()
    fused = HeadNorms.of(*norms_of(parameters, centred), 3)
    found = Hooks(scheme, rotate_in_place).rotate(qkv[:, :5], layout, fused)
    assert found.data_ptr() == qkv.data_ptr() and torch.equal(qkv[:, 5:], value)
    tolerance = 2e-5 if dtype == torch.float32 else 2e-2
    torch.testing.assert_close(found.float(), exact, atol=tolerance, rtol=tolerance)


def norms_of(parameters: Tensor, centred: bool) -> tuple[Norm, Norm]:
    one, other = (
        LayerNorm(weight, bias, 1e-3) if centred else RMSNorm(weight, 1e-3)
        for weight, bias in zip(*parameters, strict=True)
    )
    return one, other


def test_norms_of_other_kinds_are_not_joined() -> None:
    norm, ones = RMSNorm(torch.ones(4), 1e-3), torch.ones(4)
    for other in (identity, AllHeadsNorm(norm), LayerNorm(ones, ones, 1e-3), RMSNorm(ones, 1e-6)):
        assert HeadNorms.of(norm, other, 2) is None


def test_a_row_that_is_not_finite_harms_no_other() -> None:
    heads = torch.randn(3, 2, 4)
    heads[1, 0, 3] = float("nan")
    turned = rotate_in_place(heads, torch.ones(3, 2), torch.ones(3, 2), interleaved=False)
    assert turned.isfinite().all(dim=(1, 2)).tolist() == [True, False, True]


def test_without_rows_nothing_is_turned() -> None:
    table = torch.zeros(0, 2)
    assert rotate_in_place(torch.empty(0, 2, 4), table, table, interleaved=False).shape[0] == 0
