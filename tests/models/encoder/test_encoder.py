"""Layer normalisation of arrays, against torch."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from embedwell_models.encoder.encoder import layer_norm
from tests.models.encoder.linear_factories import assert_equal, numbers

WIDTHS = [1, 2, 7, 8, 48, 127, 128, 129, 384, 768, 1025]


@pytest.mark.parametrize("eps", [1e-12, 1e-5, 0.1])
@pytest.mark.parametrize("width", WIDTHS[2:])
def test_the_norm_is_that_of_torch(width: int, eps: float) -> None:
    x, weight, bias = numbers(9, width, scale=2) + 3, 1 + numbers(width, seed=2), numbers(width)
    tensors = (torch.from_numpy(array).double() for array in (x, weight, bias))
    rows, scale, shift = tensors
    expected = F.layer_norm(rows, (width,), scale, shift, eps)
    assert_equal(layer_norm(x, weight, bias, eps), expected.numpy())


@pytest.mark.parametrize("width", WIDTHS)
def test_a_row_has_the_same_bytes_alone_and_among_others(width: int) -> None:
    x, weight, bias = numbers(70, width), numbers(width, seed=2), numbers(width, seed=3)
    alone = [layer_norm(row[None], weight, bias, 1e-5) for row in x]
    assert layer_norm(x, weight, bias, 1e-5).tobytes() == np.concatenate(alone).tobytes()


def test_the_input_does_not_change() -> None:
    x, weight = numbers(3, 8), numbers(8)
    before = x.copy()
    layer_norm(x, weight, weight, 1e-5)
    assert np.array_equal(x, before)
