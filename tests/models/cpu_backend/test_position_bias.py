"""Tests of biases by distance against the hooks on torch."""

import numpy as np
import pytest
import torch

from embedwell_models.cpu_backend.position_bias import first_bias, position_bias
from embedwell_models.positions.schemes import Alibi, Buckets, Rotary, Scheme
from embedwell_models.torch_backend.position_tensors import layer_position_hooks
from embedwell_models.torch_backend.tensors import to_tensors
from tests.models.shapes import random_weights, shape


@pytest.mark.parametrize("scheme", [Alibi(), Alibi(steepest=4.0), Buckets(), Buckets(buckets=8)])
def test_a_bias_equals_torchs(scheme: Scheme) -> None:
    config = shape(hidden=192, heads=6, positions=scheme)
    weights, like = random_weights(config), torch.empty(0)
    hooks = layer_position_hooks(config, to_tensors(weights), "layers.0", config.attention, like)
    bias = position_bias(config, weights)
    assert bias is not None
    for length in (1, 2, 130):
        expected = hooks.bias(length)
        assert expected is not None
        assert np.array_equal(bias(length).astype(np.float32), expected.numpy())


@pytest.mark.parametrize("scheme", [Scheme(), Rotary(dim=32)])
def test_other_schemes_have_none(scheme: Scheme) -> None:
    assert position_bias(shape(positions=scheme), {}) is None


def test_the_heads_of_each_layer_have_rows_of_their_own() -> None:
    config = shape(hidden=192, heads=6, positions=Buckets(shared=False))
    weights, like = random_weights(config), torch.empty(0)
    bias = position_bias(config, weights)
    assert bias is not None
    for index in range(2):
        spec, first = config.attention, first_bias(config, index)
        hooks = layer_position_hooks(config, to_tensors(weights), f"layers.{index}", spec, like)
        expected = hooks.bias(130)
        assert expected is not None
        assert np.array_equal(bias(130)[first : first + 6], expected.numpy())
    assert first_bias(shape(positions=Buckets()), 1) == 0
