"""Attention pooling on a CPU against torch's attention."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from embedwell_models.checkpoint.weights import Weights
from embedwell_models.vectors import Floats
from embedwell_vision.attention_pooling import AttentionPooling
from tests.models.encoder.linear_factories import FACTORIES, numbers
from tests.models.shapes import shape

WIDTH, INNER, PATCHES = 64, 128, 9
CONFIG = shape(WIDTH, heads=2, inner=INNER, activation="gelu_tanh")


def random_weights() -> Weights:
    square = ("query", "key", "value", "output")
    shapes = dict.fromkeys(square, (WIDTH, WIDTH))
    shapes |= {"up": (INNER, WIDTH), "down": (WIDTH, INNER)}
    weights = {"pool.probe": numbers(1, 1, WIDTH)}
    for seed, (name, size) in enumerate(shapes.items()):
        weights[f"pool.{name}.weight"] = numbers(*size, seed=seed)
        weights[f"pool.{name}.bias"] = numbers(size[0], seed=seed + 20)
    weights["pool.norm.weight"], weights["pool.norm.bias"] = numbers(WIDTH), numbers(WIDTH, seed=9)
    return weights


def by_torch(weights: Weights, states: Floats) -> Floats:
    tensors = {name: torch.from_numpy(array).double() for name, array in weights.items()}

    def linear(name: str, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, tensors[f"pool.{name}.weight"], tensors[f"pool.{name}.bias"])

    x = torch.from_numpy(states).double()
    query = linear("query", tensors["pool.probe"].view(1, WIDTH))
    query, key, value = (
        part.view(len(part), 2, -1).transpose(0, 1)
        for part in (query, linear("key", x), linear("value", x))
    )
    mixed = F.scaled_dot_product_attention(query, key, value).transpose(0, 1).reshape(1, WIDTH)
    pooled = linear("output", mixed)
    norm = tensors["pool.norm.weight"], tensors["pool.norm.bias"]
    hidden = F.gelu(
        linear("up", F.layer_norm(pooled, (WIDTH,), *norm, CONFIG.norm_eps)), approximate="tanh"
    )
    vector: Floats = (pooled + linear("down", hidden))[0].numpy()
    return vector


@pytest.mark.parametrize("scale", [1.0, 100.0], ids=["usual scores", "scores beyond exp"])
def test_the_vector_of_an_image_is_torchs(scale: float) -> None:
    weights, states = random_weights(), numbers(PATCHES, WIDTH, seed=40, scale=scale)
    found = AttentionPooling(CONFIG, weights, FACTORIES["kernels"])(states)
    expected = by_torch(weights, states)
    assert np.abs(found - expected).max() < 1e-5 * np.abs(expected).max()
