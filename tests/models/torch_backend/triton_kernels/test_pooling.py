"""Tests of pooling in Triton's interpreter, compared with that of arrays."""

import numpy as np
import pytest
import torch

from embedwell_models.encoder.batch_shape import BatchShape
from embedwell_models.encoder.pooling import POOLINGS, pool_rows
from embedwell_models.torch_backend.pooling import pool as on_torch
from embedwell_models.torch_backend.pooling import pool_in_kernel
from embedwell_models.torch_backend.sequence_layout import SequenceLayout
from embedwell_models.torch_backend.triton_kernels.pooling import pool
from tests.models.torch_backend.triton_kernels.packed import LENGTHS, ends_of, rows_of, split

pytestmark = pytest.mark.interpreter


def expected(
    hidden: torch.Tensor, lengths: list[int], modes: list[str], skipped: list[int]
) -> torch.Tensor:
    rows = torch.cat(split(hidden, lengths)).numpy()
    return torch.from_numpy(pool_rows(rows, np.array(lengths), modes, np.array(skipped)))


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
@pytest.mark.parametrize("mode", POOLINGS)
@pytest.mark.parametrize("before", [0, 4])
def test_a_pooling_is_that_of_arrays(lengths: list[int], mode: str, before: int) -> None:
    hidden, skipped = rows_of(lengths, 70), [before] * len(lengths)
    found = pool(hidden, ends_of(lengths), torch.tensor(skipped, dtype=torch.int32), [mode])
    torch.testing.assert_close(
        found, expected(hidden, lengths, [mode], skipped), atol=2e-6, rtol=1e-5
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_is_summed_in_float32(dtype: torch.dtype) -> None:
    lengths, modes = [300, 2], ["mean", "max"]
    hidden, skipped = rows_of(lengths, 5).to(dtype), torch.zeros(2, dtype=torch.int32)
    found = pool(hidden, ends_of(lengths), skipped, modes)
    torch.testing.assert_close(
        found, expected(hidden.float(), lengths, modes, [0, 0]), atol=2e-6, rtol=1e-5
    )


@pytest.mark.parametrize("mode", ["mean", "max"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_not_finite_stays_in_its_text_and_column(mode: str, value: float) -> None:
    lengths = [2, 40, 3]
    hidden = rows_of(lengths, 3)
    split(hidden, lengths)[1][20, 1] = value
    found = pool(hidden, ends_of(lengths), torch.zeros(3, dtype=torch.int32), [mode])
    assert found.isfinite().tolist() == [[True] * 3, [True, False, True], [True] * 3]


@pytest.mark.parametrize("skipped", [None, [0, 2, 9]], ids=["none", "some"])
@pytest.mark.parametrize("shape", [None, BatchShape(32, 8, 16)], ids=["own", "larger"])
def test_the_encoder_pools_by_the_kernel_as_without(
    skipped: list[int] | None, shape: BatchShape | None
) -> None:
    layout = SequenceLayout([3, 9, 5], torch.device("cpu"), shape=shape, skipped=skipped)
    hidden, modes = torch.randn(layout.rows, 20), [*POOLINGS]
    found = pool_in_kernel(hidden, layout, modes)
    expected = on_torch(hidden, layout, modes)
    torch.testing.assert_close(found, expected, atol=2e-6, rtol=1e-5)


def test_without_texts_there_are_no_vectors() -> None:
    found = pool(rows_of([], 3), ends_of([]), torch.zeros(0, dtype=torch.int32), ["mean"])
    assert found.shape == (0, 3)
