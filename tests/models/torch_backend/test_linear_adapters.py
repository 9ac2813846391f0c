"""Layers of torch behind the interface for arrays."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from embedwell_models.torch_backend.linear import (
    LinearFactory,
    OneDnnLinearFactory,
    TorchLinearFactory,
)
from embedwell_models.torch_backend.linear_adapters import ArrayLinearFactory
from tests.models.encoder.linear_factories import assert_equal, numbers

FACTORIES = [
    TorchLinearFactory(torch.device("cpu"), torch.float32),
    OneDnnLinearFactory(torch.float32),
]
every_factory = pytest.mark.parametrize("factory", FACTORIES, ids=lambda each: type(each).__name__)

WEIGHT, BIAS, X = numbers(8, 16), numbers(8, seed=2), numbers(6, 16, seed=3)


@every_factory
def test_a_layer_is_product_bias_and_activation_or_residual(factory: LinearFactory) -> None:
    linear, residual = ArrayLinearFactory(factory, torch.device("cpu")), numbers(6, 8, seed=4)
    x, weight, bias = (torch.from_numpy(array).double() for array in (X, WEIGHT, BIAS))
    expected = F.linear(x, weight, bias).numpy()
    assert_equal(linear(WEIGHT, BIAS)(X), expected)
    assert_equal(linear(WEIGHT, BIAS)(X, residual), expected + residual)
    assert_equal(linear(WEIGHT, BIAS, "tanh")(X), np.tanh(expected))
