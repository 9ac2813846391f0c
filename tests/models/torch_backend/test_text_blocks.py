"""Tests of pooling over texts, a block of rows at a time."""

from itertools import chain

import pytest
import torch
from torch import Tensor

from embedwell_models.torch_backend.sequence_layout import SequenceLayout
from embedwell_models.torch_backend.text_blocks import Pooling, pool_by_text, text_blocks
from tests.models.meta import META, OnDevice

LENGTHS = [3, 1, 70, 64, 0, 5]
every_pooling = pytest.mark.parametrize("pooling", ["max", "sum"])


@pytest.mark.parametrize("rows", [1, 4, 70, 1000])
def test_blocks_hold_all_texts_in_order(rows: int) -> None:
    blocks = [*text_blocks(LENGTHS, rows)]
    assert [*chain(*blocks)] == [*range(len(LENGTHS))]
    sizes = [sum(LENGTHS[index] for index in block) for block in blocks]
    assert all(size <= rows or len(block) == 1 for size, block in zip(sizes, blocks, strict=True))
    assert len(blocks) == 1 or rows < sum(LENGTHS)


@every_pooling
def test_the_results_of_each_text_are_pooled(pooling: Pooling) -> None:
    x = torch.rand(sum(LENGTHS), 4, generator=torch.Generator().manual_seed(1))
    layout = SequenceLayout(LENGTHS, torch.device("cpu"))
    pooled = pool_by_text(x, layout, lambda rows: rows * 2, pooling)
    texts = torch.split(x * 2, LENGTHS)
    expected = [
        each.amax(dim=0) if pooling == "max" and len(each) else each.sum(dim=0) for each in texts
    ]
    torch.testing.assert_close(pooled, torch.stack(expected))
    counts = layout.lengths
    segments = torch.segment_reduce(x * 2, pooling, lengths=counts, axis=0, initial=0, unsafe=True)
    torch.testing.assert_close(segments, pooled)  # what a GPU computes


@every_pooling
@pytest.mark.parametrize(
    ("lengths", "products"), [([16] * 64, 1), ([16] * 65, 2), ([2500], 3), ([2500, 8, 8], 4)]
)
def test_a_gpu_computes_the_texts_of_a_block_in_one_product(
    pooling: Pooling, lengths: list[int], products: int
) -> None:
    calls: list[int] = []

    def compute(rows: Tensor) -> Tensor:
        calls.append(len(rows))
        return torch.empty(len(rows), 9, device=META)

    layout = SequenceLayout(lengths, META)
    _ = layout.memory  # what the pass has sent
    with OnDevice():  # type: ignore[no-untyped-call]
        x = torch.empty(sum(lengths), 4, device=META)
        pooled = pool_by_text(x, layout, compute, pooling)
    assert pooled.shape == (len(lengths), 9)
    assert len(calls) == products and sum(calls) == sum(lengths) and max(calls) <= 1024
