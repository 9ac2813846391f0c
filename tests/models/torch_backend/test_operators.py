"""Tests of attention by one kernel. The real one needs a GPU: here a plain one is in its place."""

from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from embedwell_models.encoder.batch_shape import BatchShape
from embedwell_models.torch_backend.attention import AttentionOptions, padded_attention
from embedwell_models.torch_backend.operators import (
    EfficientAttention,
    FlashAttention,
    fastest_attention,
    operators_for,
)
from embedwell_models.torch_backend.position_hooks import PositionHooks
from embedwell_models.torch_backend.sequence_layout import SequenceLayout
from tests.models.kernel import efficient_kernel, kernel
from tests.models.meta import META
from tests.models.torch_backend.heads import (
    CPU,
    HEADS,
    PLAIN,
    RULES,
    SCALE,
    SIZE,
    WINDOWS,
    Contents,
    Slanted,
    heads_of,
)

UNEVEN = RULES["uneven"]
FLASH = {**WINDOWS, "uneven": UNEVEN}
every_window = pytest.mark.parametrize("options", FLASH.values(), ids=FLASH)


@every_window
@settings(max_examples=20)
@given(lengths=st.lists(st.integers(1, 30), min_size=1, max_size=6))
def test_the_kernel_is_told_what_the_blocks_compute(
    lengths: list[int], options: AttentionOptions
) -> None:
    layout = SequenceLayout(lengths, CPU)
    heads = heads_of(layout)
    mixed = FlashAttention(kernel)(*heads, layout, options)
    assert mixed[layout.tokens :].isnan().all(), "the rows of no sequence are not computed"
    expected = padded_attention(*heads, layout, options)[: layout.tokens]
    torch.testing.assert_close(mixed[: layout.tokens], expected, atol=3e-6, rtol=1e-5)


@every_window
def test_a_larger_shape_changes_nothing(options: AttentionOptions) -> None:
    lengths = [3, 9, 5]
    own, large = (
        SequenceLayout(lengths, CPU),
        SequenceLayout(lengths, CPU, shape=BatchShape(48, 8, 48)),
    )
    heads = heads_of(large)
    query, key, value = (part[: own.rows] for part in heads)
    expected = FlashAttention(kernel)(query, key, value, own, options)
    mixed = FlashAttention(kernel)(*heads, large, options)
    assert len(mixed) == 48 and torch.equal(mixed[:17], expected[:17])


@every_window
def test_tokens_that_are_not_attended_to_go_another_way(options: AttentionOptions) -> None:
    whole, limited = SequenceLayout([3, 9], CPU), SequenceLayout([3, 9], CPU, key_counts=[3, 5])
    heads = heads_of(whole)
    mixed = FlashAttention(kernel)(*heads, limited, options)
    assert torch.equal(mixed, padded_attention(*heads, limited, options))
    everything = padded_attention(*heads, whole, options)
    assert torch.equal(mixed[:3], everything[:3]) and not torch.equal(mixed[8:], everything[8:])


def test_texts_of_one_token_go_the_way_of_longer_ones() -> None:
    layout = SequenceLayout([1, 1, 1, 1], CPU)
    assert layout.shape.max_length == 1
    FlashAttention(kernel)(*heads_of(layout), layout, PLAIN)  # which refuses 1


@pytest.mark.parametrize(
    ("options", "size", "dtype"),
    [
        (PLAIN, 64, torch.float32),
        (PLAIN, 36, torch.bfloat16),
        (PLAIN, 264, torch.bfloat16),
        (AttentionOptions(Slanted(), SCALE), 64, torch.bfloat16),
        (AttentionOptions(Contents(), SCALE), 64, torch.bfloat16),
        (AttentionOptions(PositionHooks(), SCALE, softcap=2.0), 64, torch.float16),
        (AttentionOptions(PositionHooks(), SCALE, window=3, global_first=True), 64, torch.float16),
    ],
)
def test_what_the_kernel_does_not_compute_is_left_to_the_blocks(
    options: AttentionOptions, size: int, dtype: torch.dtype
) -> None:
    chosen = fastest_attention(options, size, dtype, has_flash=True, has_triton=False)
    assert chosen is padded_attention


@pytest.mark.parametrize("options", [PLAIN, AttentionOptions(Contents(), SCALE)])
def test_without_kernels_everything_is_left_to_the_blocks(options: AttentionOptions) -> None:
    chosen = fastest_attention(options, 64, torch.float16, has_flash=False, has_triton=False)
    assert chosen is padded_attention


def test_the_kernel_of_triton_has_equal_windows_on_both_sides() -> None:
    chosen = fastest_attention(UNEVEN, 64, torch.float32, has_flash=True, has_triton=True)
    assert chosen is padded_attention


def test_scores_that_the_kernel_of_triton_does_not_know_are_left_to_the_blocks() -> None:
    options = AttentionOptions(Contents(), SCALE)
    chosen = fastest_attention(options, 64, torch.float16, has_flash=True, has_triton=True)
    assert chosen is padded_attention
    with pytest.raises(NotImplementedError, match="Contents"):
        options.positions.packed_scores(torch.zeros(1, 1, 1), torch.zeros(1, 1, 1))


def test_a_processor_computes_in_blocks() -> None:
    assert operators_for(CPU).attention(PLAIN, 64, torch.bfloat16) is padded_attention


@every_window
def test_the_operator_of_torch_takes_the_arguments_of_the_plain_kernel(
    options: AttentionOptions,
) -> None:
    layout = SequenceLayout([3, 9], META)
    host = heads_of(SequenceLayout([3, 9], CPU), torch.bfloat16)
    query, key, value = (part.to(META) for part in host)
    operator = FlashAttention(torch.ops.aten._flash_attention_forward)
    mixed = operator(query, key, value, layout, options)
    assert mixed.shape == (layout.rows, HEADS * SIZE) and mixed.dtype == torch.bfloat16


EFFICIENT = {name: RULES[name] for name in ("plain", "causal")}
every_mask = pytest.mark.parametrize("options", EFFICIENT.values(), ids=EFFICIENT)


@every_mask
@pytest.mark.parametrize("shape", [None, BatchShape(32, 8, 32)], ids=["own", "larger"])
def test_memory_efficient_attention_is_told_what_the_blocks_compute(
    options: AttentionOptions, shape: BatchShape | None
) -> None:
    layout = SequenceLayout([3, 9, 5, 1], CPU, shape=shape)
    heads = heads_of(layout)
    mixed = EfficientAttention(efficient_kernel)(*heads, layout, options)
    expected = padded_attention(*heads, layout, options)[: layout.tokens]
    torch.testing.assert_close(mixed[: layout.tokens], expected, atol=3e-6, rtol=1e-5)
    limited = SequenceLayout([3, 9, 5, 1], CPU, shape=shape, key_counts=[3, 5, 5, 1])
    mixed = EfficientAttention(efficient_kernel)(*heads, limited, options)
    assert torch.equal(mixed, padded_attention(*heads, limited, options))


@every_mask
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_the_memory_efficient_operator_of_torch_takes_the_arguments_of_the_plain_kernel(
    options: AttentionOptions, dtype: torch.dtype
) -> None:
    layout = SequenceLayout([3, 9], META)
    host = heads_of(SequenceLayout([3, 9], CPU), dtype)
    query, key, value = (part.to(META) for part in host)
    operator = EfficientAttention(torch.ops.aten._efficient_attention_forward)
    mixed = operator(query, key, value, layout, options)
    assert mixed.shape == (layout.rows, HEADS * SIZE) and mixed.dtype == dtype


@every_mask
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_a_gpu_before_ampere_attends_without_padding(
    options: AttentionOptions, dtype: torch.dtype
) -> None:
    choose = partial(fastest_attention, has_flash=False, has_triton=False, has_efficient=True)
    assert isinstance(choose(options, 64, dtype), EfficientAttention)
    for other, size in ((RULES["window"], 64), (RULES["bias"], 64), (options, 36)):
        assert choose(other, size, dtype) is padded_attention


def test_a_kernel_that_does_not_work_is_replaced_by_the_next() -> None:
    def choose(*broken: type) -> str:
        chosen = fastest_attention(
            *(PLAIN, 64, torch.float16),
            has_flash=True,
            has_triton=False,
            has_efficient=True,
            works=lambda kernel, *_: type(kernel) not in broken,
        )
        return getattr(type(chosen), "__name__", "") if chosen is not padded_attention else "padded"

    assert choose() == "FlashAttention"
    assert choose(FlashAttention) == "EfficientAttention"
    assert choose(FlashAttention, EfficientAttention) == "padded"
