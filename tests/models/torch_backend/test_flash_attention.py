"""Tests of attention by one kernel. The real one needs a GPU: here a plain one is in its place."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from models.encoder.position_hooks import Positions
from models.encoder.sequence_layout import Packing, Shape
from models.torch_backend.attention import Rules, attend
from models.torch_backend.flash_attention import Varlen, choose
from tests.models.kernel import kernel
from tests.models.torch_backend.heads import CPU, PLAIN, SCALE, WINDOWS, Contents, Slanted, heads_of

CUDA = torch.device("cuda")
every_window = pytest.mark.parametrize("rules", WINDOWS.values(), ids=WINDOWS)


@every_window
@settings(max_examples=20)
@given(lengths=st.lists(st.integers(1, 30), min_size=1, max_size=6))
def test_the_kernel_is_told_what_the_blocks_compute(lengths: list[int], rules: Rules) -> None:
    packing = Packing(lengths, CPU)
    heads = heads_of(packing)
    mixed = Varlen(kernel)(*heads, packing, rules)
    assert mixed.isfinite().all(), "the rows of no sequence are computed, too"
    expected = attend(*heads, packing, rules)[: packing.tokens]
    torch.testing.assert_close(mixed[: packing.tokens], expected, atol=3e-6, rtol=1e-5)


@every_window
def test_a_larger_shape_changes_nothing(rules: Rules) -> None:
    lengths = [3, 9, 5]
    own, large = Packing(lengths, CPU), Packing(lengths, CPU, shape=Shape(48, 8, 48))
    heads = heads_of(large)
    query, key, value = (part[: own.rows] for part in heads)
    expected = Varlen(kernel)(query, key, value, own, rules)
    mixed = Varlen(kernel)(*heads, large, rules)
    assert len(mixed) == 48 and torch.equal(mixed[:17], expected[:17])


def test_texts_of_one_token_go_the_way_of_longer_ones() -> None:
    packing = Packing([1, 1, 1, 1], CPU)
    assert packing.shape.longest == 1
    Varlen(kernel)(*heads_of(packing), packing, PLAIN)  # which refuses 1


@pytest.mark.parametrize(
    ("rules", "size", "dtype"),
    [
        (PLAIN, 64, torch.float32),
        (PLAIN, 36, torch.bfloat16),
        (PLAIN, 264, torch.bfloat16),
        (Rules(Slanted(), SCALE), 64, torch.bfloat16),
        (Rules(Contents(), SCALE), 64, torch.bfloat16),
        (Rules(Positions(), SCALE, softcap=2.0), 64, torch.float16),
    ],
)
def test_what_the_kernel_does_not_compute_is_left_to_the_blocks(
    rules: Rules, size: int, dtype: torch.dtype
) -> None:
    assert choose(rules, size, dtype, CUDA) is attend


def test_a_processor_computes_in_blocks() -> None:
    assert choose(PLAIN, 64, torch.bfloat16, CPU) is attend
