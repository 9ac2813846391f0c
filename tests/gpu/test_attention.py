"""Tests of the GPU's kernel for packed sequences compared with attention in blocks."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from embedwell_models.encoder.batch_shape import BatchShape
from embedwell_models.torch_backend.attention import AttentionOptions, padded_attention
from embedwell_models.torch_backend.operators import (
    FlashAttention,
    PackedAttention,
    fastest_attention,
    operators_for,
)
from embedwell_models.torch_backend.sequence_layout import SequenceLayout
from tests.gpu.card import since_ampere
from tests.models.torch_backend.heads import RULES, WINDOWS

pytestmark = [pytest.mark.gpu, since_ampere]

LENGTHS = [[1], [1, 1, 1, 1], [2, 1], [64] * 8, [3, 200, 1, 17, 129, 128], [1000, 5], [7] * 300]
HEADS = [(4, 4), (8, 2), (6, 1)]
SIZES = [8, 32, 64, 96, 128, 256]
DTYPES = [torch.float16, torch.bfloat16]
every_window = pytest.mark.parametrize("options", WINDOWS.values(), ids=WINDOWS)
every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)


def rules_of(options: AttentionOptions, size: int) -> AttentionOptions:
    return replace(options, scale=1 / math.sqrt(size))


def heads_of(
    layout: SequenceLayout, heads: tuple[int, int], size: int, dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values as parts of one product, as layers have them."""
    noise = torch.Generator().manual_seed(layout.rows)
    both = torch.randn(layout.rows, heads[0] + 2 * heads[1], size, generator=noise)
    split = [heads[0], heads[1], heads[1]]
    query, key, value = torch.split(both.to("cuda", dtype), split, dim=1)
    return query, key, value


@every_window
@every_dtype
@pytest.mark.parametrize("heads", HEADS, ids=str)
@pytest.mark.parametrize("size", SIZES)
def test_the_kernel_computes_what_the_blocks_do(
    options: AttentionOptions, dtype: torch.dtype, heads: tuple[int, int], size: int
) -> None:
    device, scaled = torch.device("cuda"), rules_of(options, size)
    kernel = operators_for(device).attention(scaled, size, dtype)
    assert isinstance(kernel, FlashAttention)
    for lengths in LENGTHS:
        layout = SequenceLayout(lengths, device, dtype)
        query, key, value = heads_of(layout, heads, size, dtype)
        found = kernel(query, key, value, layout, scaled)
        assert found[: layout.tokens].isfinite().all()
        exact = SequenceLayout(lengths, device)
        expected = padded_attention(query.float(), key.float(), value.float(), exact, scaled)
        torch.testing.assert_close(
            found[: layout.tokens].float(), expected[: layout.tokens], atol=2e-2, rtol=2e-2
        )


@every_window
@every_dtype
def test_a_sequence_is_the_same_bits_in_every_batch(
    options: AttentionOptions, dtype: torch.dtype
) -> None:
    device, scaled = torch.device("cuda"), rules_of(options, 64)
    kernel = operators_for(device).attention(scaled, 64, dtype)
    for length in (1, 13, 64, 300):
        alone = SequenceLayout([length], device, dtype)
        many = SequenceLayout([7, 160, length, 1, 40], device, dtype)
        fixed = SequenceLayout([7, 160, length, 1, 40], device, dtype, BatchShape(1024, 16, 1024))
        one = heads_of(alone, (4, 4), 64, dtype)
        expected = kernel(*one, alone, scaled)[:length]
        for layout in (many, fixed):
            parts = heads_of(layout, (4, 4), 64, dtype)
            for text, among in zip(one, parts, strict=True):
                among[167 : 167 + length] = text[:length]
            found = kernel(*parts, layout, scaled)[167 : 167 + length]
            assert torch.equal(found, expected), length


@pytest.mark.parametrize("dtype", [torch.float32, *DTYPES], ids=str)
@pytest.mark.parametrize("name", [*WINDOWS, "softcap"])
def test_the_kernel_of_triton_computes_what_the_blocks_do(name: str, dtype: torch.dtype) -> None:
    device, size = torch.device("cuda"), 32
    options = rules_of((RULES | WINDOWS)[name], size)
    kernel = fastest_attention(options, size, dtype, has_flash=False, has_triton=True)
    assert isinstance(kernel, PackedAttention)
    for lengths in LENGTHS:
        layout = SequenceLayout(lengths, device, dtype)
        heads = heads_of(layout, (8, 2), size, dtype)
        found = kernel(*heads, layout, options)[: layout.tokens].float()
        query, key, value = (part.float() for part in heads)
        exact = SequenceLayout(lengths, device)
        expected = padded_attention(query, key, value, exact, options)[: layout.tokens]
        margin = 1e-5 if dtype == torch.float32 else 2e-2
        torch.testing.assert_close(found, expected, atol=margin, rtol=margin)


@every_window
def test_tokens_that_are_not_attended_to_are_left_out(options: AttentionOptions) -> None:
    device, dtype, scaled = torch.device("cuda"), torch.float16, rules_of(options, 64)
    layout = SequenceLayout([3, 40], device, dtype, key_counts=[3, 5])
    heads = heads_of(layout, (4, 4), 64, dtype)
    found = operators_for(device).attention(scaled, 64, dtype)(*heads, layout, scaled)
    expected = padded_attention(*heads, layout, scaled)[: layout.tokens]
    torch.testing.assert_close(found[: layout.tokens], expected, atol=2e-2, rtol=2e-2)


def test_float32_has_the_kernel_of_triton() -> None:
    operators = operators_for(torch.device("cuda"))
    chosen = operators.attention(WINDOWS["plain"], 64, torch.float32)
    assert isinstance(chosen, PackedAttention)
