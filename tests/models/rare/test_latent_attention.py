"""Attention to latents on arrays, against torch."""

import numpy as np
import pytest
import torch

from embedwell_models.encoder.encoder import LinearFactory
from embedwell_models.torch_backend.linear import TorchLinearFactory
from embedwell_rare.latent_attention import LatentAttention, LatentWeights
from embedwell_rare.torch_layers.latent_attention import TorchLatentAttention
from tests.models.encoder.linear_factories import assert_equal, every_factory, numbers

CPU = torch.device("cpu")
HEADS, LATENTS, WIDTH, INNER = 2, 24, 48, 96
WEIGHTS = LatentWeights(
    heads=HEADS,
    attention_norm=(1 + numbers(WIDTH), numbers(WIDTH, seed=2)),
    scores=numbers(HEADS * LATENTS, WIDTH, seed=3),
    values=numbers(WIDTH, HEADS * LATENTS, seed=4),
    ffn_norm=(1 + numbers(WIDTH, seed=5), numbers(WIDTH, seed=6)),
    gate=(numbers(INNER, WIDTH, seed=7), numbers(INNER, seed=8)),
    up=(numbers(INNER, WIDTH, seed=9), numbers(INNER, seed=10)),
    down=(numbers(WIDTH, INNER, seed=11), numbers(WIDTH, seed=12)),
)
STATES = numbers(600, WIDTH, seed=13, scale=1)


@every_factory
def test_states_are_those_of_torch(linear: LinearFactory) -> None:
    exact = TorchLatentAttention(WEIGHTS, TorchLinearFactory(CPU, torch.float64), CPU)
    with torch.inference_mode():
        expected = exact.attend(torch.from_numpy(STATES).double()).numpy()
    assert_equal(LatentAttention(WEIGHTS, linear)(STATES), expected)


@every_factory
def test_a_token_has_the_same_bytes_alone_and_among_others(linear: LinearFactory) -> None:
    attention = LatentAttention(WEIGHTS, linear)
    alone = np.concatenate([attention(row[None]) for row in STATES[500:]])
    assert attention(STATES)[500:].tobytes() == alone.tobytes()


@every_factory
@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_only_a_state_that_is_not_finite_has_no_finite_result(
    value: float, linear: LinearFactory
) -> None:
    states = STATES[:5].copy()
    states[2, 0] = value
    found = np.isnan(LatentAttention(WEIGHTS, linear)(states))
    assert found[2].all() and not found[[0, 1, 3, 4]].any()
