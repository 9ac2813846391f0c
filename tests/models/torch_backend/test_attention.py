"""Tests of attention over packed sequences."""

import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from embedwell_models.torch_backend.attention import AttentionOptions, padded_attention
from embedwell_models.torch_backend.sequence_layout import SequenceLayout
from tests.models.torch_backend.heads import CPU, HEADS, KEY_HEADS, RULES, SCALE, Slanted, heads_of

BLOCK = 512  # queries whose masks are made at once


every_rule = pytest.mark.parametrize("options", RULES.values(), ids=RULES)


def naive(heads: Sequence[Tensor], lengths: list[int], options: AttentionOptions) -> Tensor:
    """Compute each sequence alone in double precision, by the formulas of the papers."""
    query, key, value = (torch.split(part[: sum(lengths)].double(), lengths) for part in heads)
    texts = zip(query, key, value, strict=True)
    return torch.cat([_naive(*text, options) for text in texts]).float()


def _naive(query: Tensor, key: Tensor, value: Tensor, options: AttentionOptions) -> Tensor:
    query, key, value = (part.transpose(0, 1) for part in (query, key, value))
    shared = [head * KEY_HEADS // HEADS for head in range(HEADS)]
    key, value, length = key[shared], value[shared], query.shape[1]
    places = torch.arange(length)
    distances = places - places[:, None]
    scores = query @ key.mT * options.scale
    if options.softcap:
        scores = options.softcap * (scores / options.softcap).tanh()
    bias, index = options.positions.bias(length), distances + length - 1
    if bias is not None:
        scores += bias[:, index]
    relative: Any = options.positions.relative_features(length)
    content = options.positions.relative_score(query[None], key[None], relative, index)
    if content is not None:
        scores += content[0] * options.scale
    window = length if options.window is None else options.window
    after = window if options.window_after is None else options.window_after
    seen = (distances >= -window) & (distances <= (0 if options.causal else after))
    seen[:, 0] |= options.global_first
    mixed = scores.masked_fill(~seen, -math.inf).softmax(dim=-1) @ value
    return mixed.transpose(0, 1).flatten(1)


def mix(layout: SequenceLayout, options: AttentionOptions) -> Tensor:
    return padded_attention(*heads_of(layout), layout, options)


@pytest.mark.full(after=3)
@every_rule
@settings(max_examples=10)
@given(lengths=st.lists(st.integers(1, 30), min_size=1, max_size=6))
def test_attention_equals_a_plain_softmax_of_each_sequence(
    lengths: list[int], options: AttentionOptions
) -> None:
    layout = SequenceLayout(lengths, CPU)
    expected = naive(heads_of(layout), lengths, options)
    mixed = mix(layout, options)[: layout.tokens]
    torch.testing.assert_close(mixed, expected, atol=3e-6, rtol=1e-5)


@every_rule
@pytest.mark.full(after=3)
def test_a_text_of_several_blocks_of_queries_is_one_text(options: AttentionOptions) -> None:
    lengths = [3, 2 * BLOCK + 1, 2 * BLOCK - 3]
    layout = SequenceLayout(lengths, CPU)
    expected = naive(heads_of(layout), lengths, options)
    mixed = mix(layout, options)[: layout.tokens]
    torch.testing.assert_close(mixed, expected, atol=3e-5, rtol=1e-5)


class Largest(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Mode that records the number of elements of the largest tensor."""

    elements = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        if isinstance(found, Tensor):
            self.elements = max(self.elements, found.numel())
        return found


def test_a_long_text_never_has_the_scores_of_all_its_tokens_at_once() -> None:
    length = 8 * BLOCK
    with Largest() as largest:  # type: ignore[no-untyped-call]
        mix(SequenceLayout([length], CPU), AttentionOptions(Slanted(), SCALE, causal=True))
    assert largest.elements <= HEADS * BLOCK * length


def test_the_rows_after_the_last_token_stay_zero() -> None:
    layout = SequenceLayout([5, 9], CPU)
    assert layout.rows > layout.tokens
    assert not mix(layout, RULES["plain"])[layout.tokens :].any()


@every_rule
def test_the_rows_after_the_last_token_are_never_read(options: AttentionOptions) -> None:
    layout = SequenceLayout([5, 9], CPU)
    heads = heads_of(layout)
    clean = padded_attention(*heads, layout, options)
    for part in heads:
        part[layout.tokens :] = float("nan")
    assert torch.equal(padded_attention(*heads, layout, options), clean)


@every_rule
@pytest.mark.parametrize("broken", [0, 1, 2])
def test_a_sequence_of_nans_spoils_no_other(broken: int, options: AttentionOptions) -> None:
    lengths = [3, 9, 5]
    layout = SequenceLayout(lengths, CPU)
    heads = heads_of(layout)
    clean = torch.split(padded_attention(*heads, layout, options)[: layout.tokens], lengths)
    start = int(layout.starts[broken])
    for part in heads:
        part[start : start + lengths[broken]] = float("nan")
    mixed = torch.split(padded_attention(*heads, layout, options)[: layout.tokens], lengths)
    for index in {0, 1, 2} - {broken}:
        assert torch.equal(mixed[index], clean[index])


@every_rule
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("length", [1, 13, 64, BLOCK + 9])
@pytest.mark.full(after=4)
def test_a_sequence_is_the_same_bits_in_every_batch(
    length: int, dtype: torch.dtype, options: AttentionOptions
) -> None:
    alone, batch = (
        SequenceLayout([length], CPU, dtype),
        SequenceLayout([7, 16, length, 1, 40, length], CPU, dtype),
    )
    one, many = heads_of(alone, dtype), heads_of(batch, dtype)
    for text, among in zip(one, many, strict=True):
        among[23 : 23 + length] = text[:length]
    expected = padded_attention(*one, alone, options)[:length]
    assert torch.equal(padded_attention(*many, batch, options)[23 : 23 + length], expected)
