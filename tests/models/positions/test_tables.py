"""Tests of the position tables, against the papers and the reference models."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.deberta_v2.modeling_deberta_v2 import make_log_bucket_position
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding
from transformers.models.marian.modeling_marian import MarianSinusoidalPositionalEmbedding
from transformers.models.mpnet.modeling_mpnet import MPNetEncoder
from transformers.models.t5.modeling_t5 import T5Attention

from embedwell_models.config.json_config import JsonConfig
from embedwell_models.families import rope
from embedwell_models.positions.schemes import GridRotary, Rotary, Scaling
from embedwell_models.positions.tables import (
    alibi_bias,
    alibi_slopes,
    angles,
    deberta_buckets,
    frequencies,
    radians,
    relative_positions,
    rotary,
    scaled_lengths,
    sinusoidal,
    t5_buckets,
    transformer_xl,
)

FAR = np.array([0, *range(301), *range(307, 5001, 37), 5000])


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


@pytest.mark.parametrize("offset", [1, 7, -3])
def test_a_step_of_positions_is_a_rotation_of_sinusoids(offset: int) -> None:
    rows, moved = (sinusoidal(np.arange(10, 500) + by, 64) for by in (0, offset))
    angle = offset / 10000 ** (np.arange(0, 64, 2) / 64)
    sin, cos = rows[:, 0::2], rows[:, 1::2]
    assert_allclose(moved[:, 0::2], sin * np.cos(angle) + cos * np.sin(angle), atol=1e-6)
    assert_allclose(moved[:, 1::2], cos * np.cos(angle) - sin * np.sin(angle), atol=1e-6)
    # So neighbours are equally far everywhere, and every row is equally long.
    apart = np.linalg.norm(moved - rows, axis=1)
    assert_allclose(apart, apart[0], rtol=1e-4)
    assert_allclose(np.linalg.norm(rows, axis=1), math.sqrt(32), rtol=1e-6)


def test_halves_are_the_sinusoids_in_the_order_of_transformer_xl() -> None:
    ours, whole = (
        transformer_xl(np.arange(-9, 10), 8, 100.0),
        sinusoidal(np.arange(-9, 10), 8, 100.0),
    )
    assert_array_equal(ours, np.concatenate([whole[:, 0::2], whole[:, 1::2]], axis=1))


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
    ours = rotary(np.arange(512), Rotary(dim=dim, base=base))
    for mine, theirs in zip(ours, (cos, sin), strict=True):
        assert mine.shape == (512, dim // 2)
        # Llama computes the angle in float32: the error grows with the position.
        assert_allclose(np.tile(mine, 2), theirs[0].numpy(), atol=1e-4)
        assert_allclose(np.tile(mine[:8], 2), theirs[0, :8].numpy(), atol=1e-6)


SCALINGS: list[dict[str, object]] = [
    {"rope_type": "linear", "factor": 4.0},
    {"rope_type": "dynamic", "factor": 4.0},
    {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128},
    {"rope_type": "yarn", "factor": 8.0, "beta_fast": 16.0, "beta_slow": 2.0, "truncate": False},
    {"rope_type": "yarn", "factor": 4.0, "attention_factor": 0.9},
    {"rope_type": "yarn", "factor": 4.0, "mscale": 0.7, "mscale_all_dim": 1.1},
    {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 256,
    },
]


@pytest.mark.parametrize("share", [1.0, 0.5])
@pytest.mark.parametrize("scaling", SCALINGS, ids=lambda scaling: str(scaling["rope_type"]))
def test_stretched_frequencies_equal_those_of_transformers(
    scaling: dict[str, object], share: float
) -> None:
    config = LlamaConfig(
        hidden_size=128,
        num_attention_heads=2,
        max_position_embeddings=512,
        rope_parameters={"rope_theta": 5000.0, "partial_rotary_factor": share, **scaling},
    )
    scheme = rope.rotary(JsonConfig(Path("config.json"), config.to_dict()), 64, share=1.0)
    compute: Any = ROPE_INIT_FUNCTIONS[str(scaling["rope_type"])]
    for length in (100, 512, 700, 2000):
        theirs, magnitude = compute(config, torch.device("cpu"), seq_len=length)
        assert_allclose(frequencies(scheme, length), theirs.numpy(), rtol=1e-6)
        assert scheme.scaling.magnitude == pytest.approx(magnitude, rel=1e-6)


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_frequencies_of_longrope_equal_those_of_transformers(share: float) -> None:
    short, long = ([1 + step * pair for pair in range(int(32 * share))] for step in (0.1, 0.7))
    config = LlamaConfig(
        hidden_size=128,
        num_attention_heads=2,
        max_position_embeddings=512,
        rope_parameters={
            **{"rope_type": "longrope", "rope_theta": 5000.0, "partial_rotary_factor": share},
            **{"short_factor": short, "long_factor": long, "original_max_position_embeddings": 128},
        },
    )
    scheme = rope.rotary(JsonConfig(Path("config.json"), config.to_dict()), 64, share=1.0)
    compute: Any = ROPE_INIT_FUNCTIONS["longrope"]
    for length in (1, 128, 129, 700):
        theirs, magnitude = compute(config, torch.device("cpu"), seq_len=length)
        assert_allclose(frequencies(scheme, length), theirs.numpy(), rtol=1e-6)
        assert scheme.scaling.magnitude == pytest.approx(magnitude, rel=1e-6)


def test_yarn_rounds_its_columns_unless_told_not_to() -> None:
    yarn = Scaling(kind="yarn", factor=4.0, original=128)
    by_default, rounded, exact = (
        frequencies(Rotary(dim=64, scaling=scaling))
        for scaling in (yarn, replace(yarn, whole=True), replace(yarn, whole=False))
    )
    assert_array_equal(by_default, rounded)
    assert np.abs(rounded - exact).max() > 1e-3


@pytest.mark.parametrize("heads", [1, 8, 12, 16, 20])
def test_alibi_equals_that_of_bloom(heads: int) -> None:
    length = 10
    theirs = build_alibi_tensor(torch.ones(1, length), heads, torch.float32).numpy()
    # Bloom writes slope * key, which softmax cannot tell from -slope * (query - key).
    ours = alibi_bias(np.arange(length), alibi_slopes(heads))
    assert ours.shape == (heads, length, length)
    assert_allclose(ours[:, -1] - ours[:, -1, :1], theirs[:, 0] - theirs[:, 0, :1], atol=1e-6)


def test_alibi_slopes_are_those_of_the_paper() -> None:
    assert_array_equal(alibi_slopes(8), [1 / 2**i for i in range(1, 9)])
    extra = [2 ** -(0.5 + i) for i in range(4)]
    assert_allclose(alibi_slopes(12), [*(1 / 2**i for i in range(1, 9)), *extra], rtol=1e-6)
    assert_allclose(alibi_slopes(16), [2 ** (-i / 2) for i in range(1, 17)], rtol=1e-6)


def test_alibi_falls_equally_to_both_sides() -> None:
    assert_allclose(
        alibi_bias(np.array([0, 1, 4]), alibi_slopes(2)),
        -np.array([1 / 16, 1 / 256])[:, None, None] * [[0, 1, 4], [1, 0, 3], [4, 3, 0]],
    )


def test_causal_alibi_hides_what_comes_after() -> None:
    found = alibi_bias(np.array([4, 0, 1]), alibi_slopes(1), causal=True)
    hidden = -np.inf
    assert_allclose(256 * found[0], np.array([[0, -4, -3], [hidden, 0, hidden], [hidden, -1, 0]]))


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize("max_distance", [64, 128, 1000])
@pytest.mark.parametrize("count", [8, 16, 32, 64])
def test_buckets_equal_those_of_t5(count: int, max_distance: int, bidirectional: bool) -> None:
    ours = t5_buckets(relative_positions(FAR), count, max_distance, bidirectional)
    t5: Any = T5Attention
    theirs = t5._relative_position_bucket(
        torch.from_numpy(FAR[None, :] - FAR[:, None]), bidirectional, count, max_distance
    )
    assert_array_equal(ours, theirs.numpy())


def test_buckets_are_by_default_those_of_the_t5_paper() -> None:
    row = t5_buckets(relative_positions(np.arange(200)))[0]
    assert_array_equal(row[:9], [0, *range(17, 25)])
    assert row[128] == row[199] == 31


def test_buckets_equal_those_of_mpnet() -> None:
    mpnet: Any = MPNetEncoder
    theirs = mpnet.relative_position_bucket(torch.from_numpy(relative_positions(FAR)))
    assert_array_equal(t5_buckets(relative_positions(FAR)), theirs.numpy())


@pytest.mark.parametrize("max_distance", [64, 512, 1000])
@pytest.mark.parametrize("count", [8, 32, 64, 256])
def test_logarithmic_buckets_equal_those_of_deberta(count: int, max_distance: int) -> None:
    if max_distance <= count // 2:
        max_distance += count
    distances = -relative_positions(FAR)
    theirs = make_log_bucket_position(torch.from_numpy(distances), count, max_distance)
    assert_array_equal(deberta_buckets(distances, count, max_distance), theirs.long().numpy())


def test_without_buckets_every_distance_is_its_own() -> None:
    assert_array_equal(deberta_buckets(relative_positions(FAR), 0, 512), relative_positions(FAR))


@pytest.mark.parametrize(
    "scaling",
    [
        Scaling(),
        Scaling(kind="linear", factor=2.0),
        Scaling(kind="dynamic", factor=2.0, original=24),
        Scaling(kind="longrope", original=24, short=(1.0,) * 4, long=(2.0, 3.0, 4.0, 5.0)),
    ],
    ids=lambda scaling: scaling.kind,
)
def test_lengths_with_the_same_frequencies_are_one_length(scaling: Scaling) -> None:
    scheme, lengths = Rotary(dim=8, scaling=scaling), np.array([1, 24, 25, 40, 41])
    scaled = scaled_lengths(scheme, lengths)
    assert len({*scaled.tolist()}) == {"dynamic": 4, "longrope": 2}.get(scaling.kind, 1)
    for length, same in zip(lengths.tolist(), scaled.tolist(), strict=True):
        assert np.array_equal(frequencies(scheme, length), frequencies(scheme, same))


def test_patches_turn_by_their_row_and_column_and_the_class_token_does_not() -> None:
    scheme = GridRotary(dim=8, side=3, step=0.5)
    turned = radians(np.arange(10), scheme)
    halves = angles(np.arange(3), 4) * 0.5
    assert not turned[0].any()
    assert np.array_equal(turned[1:, :2], halves.repeat(3, axis=0))
    assert np.array_equal(turned[1:, 2:], np.tile(halves, (3, 1)))
