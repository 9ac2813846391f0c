"""Tests of the exact values that the tests of families compare with."""

import os
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.models.families.checkpoint import assert_close
from tests.models.families.exact import FLOOR, Expected, assert_near, exactly, expected


class Norm(torch.nn.Linear):
    """A layer that computes a part of itself in float32, as the norms of transformers do."""

    def forward(self, values: Tensor) -> Tensor:
        states = super().forward(values.to(self.weight.dtype))
        parts = [states.float(), states.to(torch.float32), torch.ones(1)]
        assert len({part.dtype for part in parts}) == 1
        return (parts[0] - parts[1].mean()).to(states.dtype) * parts[2]


def test_a_model_that_asks_for_float32_computes_in_float64() -> None:
    layer, values = Norm(3, 4), torch.randn(2, 3)
    found = expected(layer, lambda either: either(values))
    right = values.double() @ layer.weight.double().T + layer.bias.double()
    torch.testing.assert_close(found.values, right - right.mean(), rtol=1e-12, atol=1e-12)
    assert 0 < found.error < 1e-5
    assert layer.weight.dtype == torch.get_default_dtype() == torch.float32


def test_a_difference_may_be_a_multiple_of_the_error_of_the_reference() -> None:
    values = torch.tensor([1.0, -2.0], dtype=torch.float64)
    assert Expected(values.float(), lambda: values).tolerance() == FLOOR * 2
    shaky = Expected(values.float() + 1e-3, lambda: values)
    assert_close(values.float() - 4e-3, shaky)
    for reference, difference in ((shaky, 1e-2), (Expected(values.float(), lambda: values), 1e-4)):
        with pytest.raises(AssertionError):
            assert_close(values.float() - difference, reference)


@pytest.mark.skipif(
    "FLOAT64_REFERENCES" in os.environ,
    reason="with FLOAT64_REFERENCES, no reference is computed in float32 first",
)
def test_the_reference_computes_in_float64_only_for_values_that_are_not_close() -> None:
    calls = list[torch.dtype]()

    @exactly
    def reference() -> Tensor:
        calls.append(torch.get_default_dtype())
        return torch.tensor([1.0, -2.0]) * torch.ones(2)

    values = reference()
    assert_near(values.rounded + FLOOR, values)
    assert calls == [torch.float32]
    for found in (values.rounded + 3 * FLOOR, values.rounded[:1], values.rounded * float("nan")):
        with pytest.raises(AssertionError):
            assert_near(found, values)
    assert calls == [torch.float32, torch.float64]


def test_a_decorated_reference_computes_from_weights_and_inputs_in_float32() -> None:
    layer, values = Norm(3, 4), torch.randn(2, 3)

    @exactly
    def reference(scale: float) -> Any:
        both = torch.cat([layer(values), values @ layer.weight.T])
        return (scale * both).numpy()

    exact = reference(2.0)
    alone = expected(layer, lambda either: either(values)).values
    torch.testing.assert_close(exact.values[:2], 2 * alone, rtol=1e-12, atol=1e-12)
    assert 0 < exact.error < 1e-5
    assert_near(exact.values.float(), exact)
    with pytest.raises(AssertionError):
        assert_near(exact.values.float() + 1e-3, exact)


def test_a_reference_that_rounds_is_refused() -> None:
    @exactly
    def reference() -> Any:
        return torch.ones(2).numpy().astype("float32")

    with pytest.raises(AssertionError, match="rounds to float32"):
        assert_near(torch.zeros(2), reference())
