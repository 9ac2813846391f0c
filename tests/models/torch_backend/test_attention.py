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

from models.encoder.sequence_layout import Packing
from models.torch_backend.attention import Rules, attend
from tests.models.torch_backend.heads import CPU, HEADS, KEY_HEADS, RULES, SCALE, Slanted, heads_of

BLOCK = 512  # queries whose masks are made at once


every_rule = pytest.mark.parametrize("rules", RULES.values(), ids=RULES)


def naive(heads: Sequence[Tensor], lengths: list[int], rules: Rules) -> Tensor:
    """Each sequence alone, in double precision, as the papers write it."""
    query, key, value = (torch.split(part[: sum(lengths)].double(), lengths) for part in heads)
    texts = zip(query, key, value, strict=True)
    return torch.cat([_naive(*text, rules) for text in texts]).float()


def _naive(query: Tensor, key: Tensor, value: Tensor, rules: Rules) -> Tensor:
    query, key, value = (part.transpose(0, 1) for part in (query, key, value))
    shared = [head * KEY_HEADS // HEADS for head in range(HEADS)]
    key, value, length = key[shared], value[shared], query.shape[1]
    places = torch.arange(length)
    distances = places - places[:, None]
    scores = query @ key.mT * rules.scale
    if rules.softcap:
        scores = rules.softcap * (scores / rules.softcap).tanh()
    bias, index = rules.positions.bias(length), distances + length - 1
    if bias is not None:
        scores += bias[:, index]
    relative: Any = rules.positions.relative(length)
    content = rules.positions.score(query[None], key[None], relative, index)
    if content is not None:
        scores += content[0] * rules.scale
    reach = length if rules.reach is None else rules.reach
    seen = (distances.abs() <= reach) & (distances <= (0 if rules.causal else reach))
    mixed = scores.masked_fill(~seen, -math.inf).softmax(dim=-1) @ value
    return mixed.transpose(0, 1).flatten(1)


def mix(packing: Packing, rules: Rules) -> Tensor:
    return attend(*heads_of(packing), packing, rules)


@every_rule
@settings(max_examples=10)
@given(lengths=st.lists(st.integers(1, 30), min_size=1, max_size=6))
def test_attention_equals_a_plain_softmax_of_each_sequence(
    lengths: list[int], rules: Rules
) -> None:
    packing = Packing(lengths, CPU)
    expected = naive(heads_of(packing), lengths, rules)
    mixed = mix(packing, rules)[: packing.tokens]
    torch.testing.assert_close(mixed, expected, atol=3e-6, rtol=1e-5)


@every_rule
@pytest.mark.parametrize("length", [BLOCK + 1, 2 * BLOCK + 76])
@pytest.mark.full(after=3)
def test_a_text_of_several_blocks_of_queries_is_one_text(length: int, rules: Rules) -> None:
    lengths = [3, length, length - 4]
    packing = Packing(lengths, CPU)
    expected = naive(heads_of(packing), lengths, rules)
    mixed = mix(packing, rules)[: packing.tokens]
    torch.testing.assert_close(mixed, expected, atol=3e-5, rtol=1e-5)


class Largest(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Remembers how many elements the largest tensor has."""

    elements = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        if isinstance(found, Tensor):
            self.elements = max(self.elements, found.numel())
        return found


def test_a_long_text_never_has_the_scores_of_all_its_tokens_at_once() -> None:
    length = 8 * BLOCK
    with Largest() as largest:  # type: ignore[no-untyped-call]
        mix(Packing([length], CPU), Rules(Slanted(), SCALE, causal=True))
    assert largest.elements <= HEADS * BLOCK * length


def test_the_rows_after_the_last_token_stay_zero() -> None:
    packing = Packing([5, 9], CPU)
    assert packing.rows > packing.tokens
    assert not mix(packing, RULES["plain"])[packing.tokens :].any()


@every_rule
def test_the_rows_after_the_last_token_are_never_read(rules: Rules) -> None:
    packing = Packing([5, 9], CPU)
    heads = heads_of(packing)
    clean = attend(*heads, packing, rules)
    for part in heads:
        part[packing.tokens :] = float("nan")
    assert torch.equal(attend(*heads, packing, rules), clean)


@every_rule
@pytest.mark.parametrize("broken", [0, 1, 2])
def test_a_sequence_of_nans_spoils_no_other(broken: int, rules: Rules) -> None:
    lengths = [3, 9, 5]
    packing = Packing(lengths, CPU)
    heads = heads_of(packing)
    clean = torch.split(attend(*heads, packing, rules)[: packing.tokens], lengths)
    start = int(packing.starts[broken])
    for part in heads:
        part[start : start + lengths[broken]] = float("nan")
    mixed = torch.split(attend(*heads, packing, rules)[: packing.tokens], lengths)
    for index in {0, 1, 2} - {broken}:
        assert torch.equal(mixed[index], clean[index])


@every_rule
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("length", [1, 13, 64, BLOCK + 9])
@pytest.mark.full(after=4)
def test_a_sequence_is_the_same_bits_in_every_batch(
    length: int, dtype: torch.dtype, rules: Rules
) -> None:
    alone, batch = (
        Packing([length], CPU, dtype),
        Packing([7, 16, length, 1, 40, length], CPU, dtype),
    )
    one, many = heads_of(alone, dtype), heads_of(batch, dtype)
    for text, among in zip(one, many, strict=True):
        among[23 : 23 + length] = text[:length]
    expected = attend(*one, alone, rules)[:length]
    assert torch.equal(attend(*many, batch, rules)[23 : 23 + length], expected)
