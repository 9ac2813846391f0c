"""Tests of biases by distance against the hooks on torch."""

import numpy as np
import pytest
import torch

from embedwell_models.config.layer_spec import AttentionSpec
from embedwell_models.cpu_backend.position_bias import position_bias
from embedwell_models.positions.schemes import Alibi, Buckets, Rotary, Scheme
from embedwell_models.torch_backend.position_tensors import layer_position_hooks
from embedwell_models.torch_backend.tensors import to_tensors
from tests.models.shapes import random_weights, shape


def attention(scheme: Scheme) -> AttentionSpec:
    return AttentionSpec(heads=6, kv_heads=6, head_size=32, scale=1.0, positions=scheme)


@pytest.mark.parametrize("scheme", [Alibi(), Alibi(steepest=4.0), Buckets(), Buckets(buckets=8)])
def test_a_bias_equals_torchs(scheme: Scheme) -> None:
    config = shape(hidden=192, heads=6, positions=scheme)
    weights, spec, like = random_weights(config), attention(scheme), torch.empty(0)
    hooks = layer_position_hooks(config, to_tensors(weights), "layers.0", spec, like)
    bias = position_bias(spec, weights)
    assert bias is not None
    for length in (1, 2, 130):
        expected = hooks.bias(length)
        assert expected is not None
        assert np.array_equal(bias(length).astype(np.float32), expected.numpy())


@pytest.mark.parametrize("scheme", [Scheme(), Rotary(dim=32)])
def test_other_schemes_have_none(scheme: Scheme) -> None:
    assert position_bias(attention(scheme), {}) is None
