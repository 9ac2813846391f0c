"""Tests of the position tables, against the papers and the reference models."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from transformers import LlamaConfig
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding
from transformers.models.marian.modeling_marian import MarianSinusoidalPositionalEmbedding
from transformers.models.t5.modeling_t5 import T5Attention

from models.tables import alibi, alibi_slopes, relative_buckets, rotary, sinusoidal


def test_sinusoids_follow_the_formula_of_the_paper() -> None:
    table = sinusoidal(np.array([0, 1, 7, 5000]), 6)
    for row, position in enumerate([0, 1, 7, 5000]):
        for i in range(3):
            angle = position / 10000 ** (2 * i / 6)
            assert table[row, 2 * i] == pytest.approx(math.sin(angle), abs=1e-7)
            assert table[row, 2 * i + 1] == pytest.approx(math.cos(angle), abs=1e-7)


def test_sinusoids_equal_a_reference_up_to_the_order_of_columns() -> None:
    marian: Any = MarianSinusoidalPositionalEmbedding(512, 64)
    halves = marian.create_weight().numpy()
    ours = sinusoidal(np.arange(512), 64)
    assert_allclose(np.concatenate([ours[:, 0::2], ours[:, 1::2]], axis=1), halves, atol=1e-6)


def test_an_odd_width_ends_with_a_sine() -> None:
    table = sinusoidal(np.arange(4), 5)
    assert table.shape == (4, 5)
    assert_allclose(table[:, 4], np.sin(np.arange(4) / 10000 ** (4 / 5)), atol=1e-7)


@pytest.mark.parametrize(("dim", "base"), [(8, 10000.0), (64, 10000.0), (64, 160000.0)])
def test_rotations_equal_those_of_llama(dim: int, base: float) -> None:
    config = LlamaConfig(
        hidden_size=dim * 2,
        num_attention_heads=2,
        rope_parameters={"rope_type": "default", "rope_theta": base},
    )
    cos, sin = LlamaRotaryEmbedding(config)(torch.zeros(1), torch.arange(512)[None])
    ours = rotary(np.arange(512), dim, base)
    for mine, theirs in zip(ours, (cos, sin), strict=True):
        assert mine.shape == (512, dim // 2)
        # Llama computes the angle in float32: the error grows with the position.
        assert_allclose(np.tile(mine, 2), theirs[0].numpy(), atol=1e-4)
        assert_allclose(np.tile(mine[:8], 2), theirs[0, :8].numpy(), atol=1e-6)


@pytest.mark.parametrize("heads", [1, 8, 12, 16, 20])
def test_alibi_equals_that_of_bloom(heads: int) -> None:
    length = 10
    theirs = build_alibi_tensor(torch.ones(1, length), heads, torch.float32).numpy()
    # Bloom writes slope * key, which softmax cannot tell from -slope * (query - key).
    ours = alibi(np.arange(length), heads)
    assert ours.shape == (heads, length, length)
    assert_allclose(ours[:, -1] - ours[:, -1, :1], theirs[:, 0] - theirs[:, 0, :1], atol=1e-6)


def test_alibi_slopes_are_those_of_the_paper() -> None:
    assert_array_equal(alibi_slopes(8), [1 / 2**i for i in range(1, 9)])
    extra = [2 ** -(0.5 + i) for i in range(4)]
    assert_allclose(alibi_slopes(12), [*(1 / 2**i for i in range(1, 9)), *extra], rtol=1e-6)


def test_alibi_falls_equally_to_both_sides() -> None:
    assert_allclose(
        alibi(np.array([0, 1, 4]), 2),
        -np.array([1 / 16, 1 / 256])[:, None, None] * [[0, 1, 4], [1, 0, 3], [4, 3, 0]],
    )


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize("max_distance", [64, 128, 1000])
@pytest.mark.parametrize("buckets", [8, 16, 32, 64])
def test_buckets_equal_those_of_t5(buckets: int, max_distance: int, bidirectional: bool) -> None:
    far = np.array([0, *range(301), *range(307, 5001, 37), 5000])  # distances from the first
    ours = relative_buckets(far, buckets, max_distance, bidirectional)
    t5: Any = T5Attention
    theirs = t5._relative_position_bucket(
        torch.from_numpy(far[None, :] - far[:, None]), bidirectional, buckets, max_distance
    )
    assert_array_equal(ours, theirs.numpy())


def test_buckets_are_by_default_those_of_the_t5_paper() -> None:
    row = relative_buckets(np.arange(200))[0]
    assert_array_equal(row[:9], [0, *range(17, 25)])
    assert row[128] == row[199] == 31
