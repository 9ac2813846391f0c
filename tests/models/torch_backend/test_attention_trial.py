"""Tests of the trial of a kernel of attention, with kernels for any device."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from embedwell_models.torch_backend.attention import AttentionOptions, padded_attention
from embedwell_models.torch_backend.attention_trial import attention_works
from embedwell_models.torch_backend.operators import EfficientAttention, FlashAttention
from tests.models.kernel import efficient_kernel, kernel
from tests.models.torch_backend.heads import CPU, PLAIN, RULES, WINDOWS

every_dtype = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])


@every_dtype
@pytest.mark.parametrize("options", WINDOWS.values(), ids=WINDOWS)
def test_a_kernel_that_computes_the_same_works(
    options: AttentionOptions, dtype: torch.dtype
) -> None:
    assert attention_works(CPU, FlashAttention(kernel), options, 16, dtype)
    if options.window is None:
        assert attention_works(CPU, EfficientAttention(efficient_kernel), options, 16, dtype)


def test_scores_of_positions_are_not_tried() -> None:
    assert attention_works(CPU, FlashAttention(kernel), RULES["content"], 16, torch.float32)


@pytest.mark.parametrize(
    "options",
    [RULES["causal"], RULES["window"], replace(PLAIN, window=300)],
    ids=["causal", "window", "wide window"],
)
def test_a_kernel_that_ignores_an_argument_does_not_work(
    options: AttentionOptions, caplog: pytest.LogCaptureFixture
) -> None:
    def ignores(*args: Any, **keywords: Any) -> tuple[Tensor]:
        everything = {"is_causal": False, "window_size_left": None, "window_size_right": None}
        return kernel(*args, **keywords | everything)

    assert not attention_works(CPU, FlashAttention(ignores), options, 16, torch.bfloat16)
    [record] = caplog.records
    assert record.message.startswith(
        "FlashAttention in torch.bfloat16 is not used on this GPU: its values differ by "
    )


def test_a_kernel_that_computes_nan_does_not_work() -> None:
    def nothing(query: Tensor, *_: Any, **__: Any) -> tuple[Tensor]:
        return (torch.full_like(query, torch.nan),)

    assert not attention_works(CPU, FlashAttention(nothing), PLAIN, 16, torch.bfloat16)


def test_a_kernel_that_the_gpu_lacks_is_tried_once(caplog: pytest.LogCaptureFixture) -> None:
    calls: list[int] = []

    def lacks(*_: Any, **__: Any) -> tuple[Tensor]:
        calls.append(1)
        raise RuntimeError("FlashAttention is not supported on gfx906\nmore")

    layers = [attention_works(CPU, FlashAttention(lacks), PLAIN, 16, torch.float16)] * 3
    again = attention_works(CPU, FlashAttention(lacks), replace(PLAIN), 16, torch.float16)
    assert not any([*layers, again]) and len(calls) == 1
    [record] = caplog.records
    assert record.message.endswith(" GPU: FlashAttention is not supported on gfx906")


def test_a_lack_of_memory_does_not_count_against_a_kernel() -> None:
    def full(*_: Any, **__: Any) -> tuple[Tensor]:
        raise torch.OutOfMemoryError

    with pytest.raises(torch.OutOfMemoryError):
        attention_works(CPU, FlashAttention(full), PLAIN, 16, torch.float16)


def test_padded_attention_works_everywhere() -> None:
    assert attention_works(CPU, padded_attention, PLAIN, 16, torch.bfloat16)
