"""Tests of a decoder's attention to its tokens and to the states of an encoder."""

import math
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from embedwell_models.encoder.batch import Batch
from embedwell_models.torch_backend.attention import AttentionOptions
from embedwell_models.torch_backend.linear import OutputLinear, TorchLinearFactory
from embedwell_models.torch_backend.norm import identity
from embedwell_models.torch_backend.position_hooks import PositionHooks
from embedwell_models.torch_backend.sequence_layout import SequenceLayout
from embedwell_rare.torch_layers.merged_attention import (
    DecoderLayout,
    EncoderStates,
    MergedAttention,
)
from tests.models.torch_backend.heads import CPU

WIDTH, HEADS, KEY_HEADS, SIZE = 16, 4, 2, 8
SCALE = 1 / math.sqrt(SIZE)
NOISE = torch.Generator().manual_seed(5)
QUERY, KEY, VALUE, OUTPUT = (
    torch.randn(shape, generator=NOISE) * 0.3
    for shape in (
        (HEADS * SIZE, WIDTH),
        (KEY_HEADS * SIZE, WIDTH),
        (KEY_HEADS * SIZE, WIDTH),
        (WIDTH, HEADS * SIZE),
    )
)


def attention(window: int | None) -> MergedAttention:
    factory = TorchLinearFactory(CPU, torch.float32)

    def linear(weight: Tensor) -> OutputLinear:
        return OutputLinear(factory(weight, torch.zeros(len(weight))), factory.fuses_residual)

    return MergedAttention(
        query=linear(QUERY).linear,
        key_value=linear(torch.cat([KEY, VALUE])).linear,
        output=linear(OUTPUT),
        query_norm=identity,
        key_norm=identity,
        heads=(HEADS, KEY_HEADS),
        options=AttentionOptions(PositionHooks(), SCALE, causal=True, window=window),
    )


def spec_of(lengths: Sequence[tuple[int, int]]) -> tuple[DecoderLayout, Tensor]:
    """A layout of numbers of tokens and of states, and the rows of the tokens."""
    tokens, counts = ([each[part] for each in lengths] for part in (0, 1))
    rows = torch.randn(sum(counts), WIDTH, generator=torch.Generator().manual_seed(1))
    queries = Batch.of([[0] * count for count in tokens])
    layout = DecoderLayout(queries, EncoderStates(rows, counts), CPU)
    x = torch.randn(layout.rows, WIDTH, generator=torch.Generator().manual_seed(2))
    return layout, x


def naive(x: Tensor, states: Tensor, window: int | None) -> Tensor:
    """One text in double precision: a softmax over its tokens and all states."""
    x, states = x.double(), states.double()
    shared = [head * KEY_HEADS // HEADS for head in range(HEADS)]
    both = torch.cat([x, states])
    query = (x @ QUERY.double().T).view(len(x), HEADS, SIZE).transpose(0, 1)
    key, value = (
        (both @ weight.double().T).view(len(both), KEY_HEADS, SIZE).transpose(0, 1)[shared]
        for weight in (KEY, VALUE)
    )
    distances = torch.arange(len(x))[:, None] - torch.arange(len(x))
    own = (distances >= 0) & (distances <= (len(x) if window is None else window))
    seen = torch.cat([own, torch.ones(len(x), len(states), dtype=torch.bool)], dim=1)
    scores = (query @ key.mT * SCALE).masked_fill(~seen, -math.inf)
    mixed = (scores.softmax(dim=-1) @ value).transpose(0, 1).flatten(1)
    return (mixed @ OUTPUT.double().T).float()


@pytest.mark.parametrize("window", [None, 0, 3])
@settings(max_examples=15)
@given(lengths=st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=6))
def test_each_text_is_a_softmax_over_its_tokens_and_states(
    window: int | None, lengths: list[tuple[int, int]]
) -> None:
    layout, x = spec_of(lengths)
    mixed = attention(window)(x, layout).evaluate()[: layout.tokens]
    tokens, counts = ([each[part] for each in lengths] for part in (0, 1))
    texts = zip(
        torch.split(x[: layout.tokens], tokens),
        torch.split(layout.encoder_states.rows, counts),
        strict=True,
    )
    expected = torch.cat([naive(*text, window) for text in texts])
    torch.testing.assert_close(mixed, expected, atol=3e-6, rtol=1e-5)


def test_a_text_of_nans_spoils_no_other() -> None:
    layout, x = spec_of([(3, 5), (9, 2), (4, 12)])
    clean = attention(3)(x, layout).evaluate()
    x[3:12] = float("nan")
    layout.encoder_states.rows[5:7] = float("nan")
    mixed = attention(3)(x, layout).evaluate()
    assert mixed[3:12].isnan().all()
    assert torch.equal(mixed[:3], clean[:3]) and torch.equal(mixed[12:16], clean[12:16])


@settings(max_examples=20)
@given(lengths=st.lists(st.integers(1, 20), min_size=1, max_size=5), size=st.integers(1, 6))
def test_the_states_of_a_decoder_are_means_of_those_of_the_encoder(
    lengths: list[int], size: int
) -> None:
    layout = SequenceLayout(lengths, CPU)
    rows = torch.randn(layout.rows, WIDTH, generator=torch.Generator().manual_seed(3))
    rows[layout.tokens :] = float("nan")
    states = EncoderStates.of_means(rows, layout, size)
    expected = [
        part.mean(dim=0)
        for text in torch.split(rows[: layout.tokens], lengths)
        for part in torch.split(text, size)
    ]
    assert list(states.lengths) == [-(-length // size) for length in lengths]
    torch.testing.assert_close(states.rows[: len(expected)], torch.stack(expected))
    assert not states.rows[len(expected) :].any()
