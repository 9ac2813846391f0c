"""Tests of attention over packed sequences."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from models.attention import attend
from models.packing import Packing
from models.positions import Positions

CPU = torch.device("cpu")
HEADS, SIZE = 3, 8


class Slanted(Positions):
    """A bias that differs by head and by the order of the two tokens."""

    def __init__(self, causal: bool = False) -> None:
        self.causal = causal

    def bias(self, reach: int) -> Tensor:
        distance = torch.arange(1 - reach, reach, dtype=torch.float32)
        slopes = torch.tensor([0.5, -0.3, 0.1])[:, None]
        return slopes * (2 * distance.abs() + distance)


def random_qkv(packing: Packing) -> Tensor:
    return torch.randn(
        packing.rows, 3, HEADS, SIZE, generator=torch.Generator().manual_seed(packing.rows)
    )


def naive(qkv: Tensor, lengths: list[int], positions: Positions) -> Tensor:
    """Each sequence alone, in double precision, as the paper writes it."""
    outputs = []
    for part in torch.split(qkv[: sum(lengths)].double(), lengths):
        query, key, value = part.permute(1, 2, 0, 3)
        scores = query @ key.transpose(1, 2) / math.sqrt(SIZE)
        bias = positions.bias(len(part))
        for i, j in itertools.product(range(len(part)), repeat=2):
            if bias is not None:
                scores[:, i, j] += bias[:, j - i + len(part) - 1].double()
            if positions.causal and j > i:
                scores[:, i, j] = -math.inf
        outputs.append((scores.softmax(dim=-1) @ value).transpose(0, 1).reshape(len(part), -1))
    return torch.cat(outputs).float()


@pytest.mark.parametrize("positions", [Positions(), Slanted(), Slanted(causal=True)])
@settings(max_examples=20)
@given(lengths=st.lists(st.integers(1, 30), min_size=1, max_size=6))
def test_attention_equals_a_plain_softmax_of_each_sequence(
    lengths: list[int], positions: Positions
) -> None:
    packing = Packing(lengths, CPU)
    qkv = random_qkv(packing)
    mixed = attend(qkv, packing, positions)[: packing.tokens]
    torch.testing.assert_close(mixed, naive(qkv, lengths, positions), atol=2e-6, rtol=1e-5)


def test_the_rows_after_the_last_token_stay_zero() -> None:
    packing = Packing([5, 9], CPU)
    assert packing.rows > packing.tokens
    mixed = attend(random_qkv(packing), packing, Positions())
    assert not mixed[packing.tokens :].any()


def test_the_rows_after_the_last_token_are_never_read() -> None:
    packing = Packing([5, 9], CPU)
    qkv = random_qkv(packing)
    clean = attend(qkv, packing, Positions())
    qkv[packing.tokens :] = float("nan")
    assert torch.equal(attend(qkv, packing, Positions()), clean)


@pytest.mark.parametrize("broken", [0, 1, 2])
def test_a_sequence_of_nans_spoils_no_other(broken: int) -> None:
    lengths = [3, 9, 5]
    packing = Packing(lengths, CPU)
    qkv = random_qkv(packing)
    clean = torch.split(attend(qkv, packing, Positions())[: packing.tokens], lengths)
    start = int(packing.starts[broken])
    qkv[start : start + lengths[broken]] = float("nan")
    mixed = torch.split(attend(qkv, packing, Positions())[: packing.tokens], lengths)
    for index in {0, 1, 2} - {broken}:
        assert torch.equal(mixed[index], clean[index])


@pytest.mark.parametrize("positions", [Positions(), Slanted(), Slanted(causal=True)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("length", [1, 8, 13, 64, 200])
def test_a_sequence_is_the_same_bits_in_every_batch(
    length: int, dtype: torch.dtype, positions: Positions
) -> None:
    alone, batch = (
        Packing([length], CPU, dtype),
        Packing([7, 16, length, 1, 40, length], CPU, dtype),
    )
    one, many = random_qkv(alone).to(dtype), random_qkv(batch).to(dtype)
    many[23 : 23 + length] = one[:length]
    expected = attend(one, alone, positions)[:length]
    assert torch.equal(attend(many, batch, positions)[23 : 23 + length], expected)
