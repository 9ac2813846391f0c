"""Tests of linear layers in every layout and precision."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from models.activations import ACTIVATIONS
from models.linear import Layout, Observed, Plain, Prepacked
from models.precision import short

CPU, GPU = torch.device("cpu"), torch.device("cuda")
ROUNDING = {torch.float32: 1e-5, torch.bfloat16: 2e-2}
DTYPES = [torch.float32] + [torch.bfloat16] * short()

layouts = pytest.mark.parametrize(
    "layout",
    [kind for dtype in DTYPES for kind in (Plain(CPU, dtype), Prepacked(dtype))],
    ids=lambda layout: f"{type(layout).__name__}-{layout.dtype}",
)


def reference(y: Tensor, activation: str) -> Tensor:
    """The activations as their papers write them."""
    if activation in ("gelu", "gelu_python"):
        return y * (1 + torch.erf(y / 2**0.5)) / 2
    if activation in ("gelu_new", "gelu_fast", "gelu_pytorch_tanh"):
        return y * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (y + 0.044715 * y**3))) / 2
    if activation in ("silu", "swish", "quick_gelu"):
        return y / (1 + torch.exp(-y * (1.702 if activation == "quick_gelu" else 1)))
    return y.clamp(min=0) if activation == "relu" else y


def numbers(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(len(shape)))


@layouts
@pytest.mark.parametrize("activation", ["none", *ACTIVATIONS])
def test_a_layer_is_product_bias_and_activation(layout: Layout, activation: str) -> None:
    x, weight, bias = numbers(6, 16), numbers(8, 16) / 4, numbers(8)
    x, weight, bias = (tensor.to(layout.dtype).float() for tensor in (x, weight, bias))
    y = layout(weight, bias, activation)(x.to(layout.dtype))
    assert y.dtype == layout.dtype
    expected = reference(F.linear(x.double(), weight.double(), bias.double()), activation)
    rounding = ROUNDING[layout.dtype]
    torch.testing.assert_close(y.double(), expected, atol=rounding, rtol=rounding)


@layouts
def test_a_residual_is_added(layout: Layout) -> None:
    x, weight, bias, residual = numbers(6, 16), numbers(8, 16) / 4, numbers(8), 3 * numbers(6, 8)
    y = layout(weight, bias)(x.to(layout.dtype), residual=residual.to(layout.dtype))
    rounding = 2 * ROUNDING[layout.dtype]
    expected = F.linear(x, weight, bias) + residual
    torch.testing.assert_close(y.float(), expected, atol=2 * rounding, rtol=rounding)


@layouts
def test_a_call_changes_none_of_its_inputs(layout: Layout) -> None:
    x, residual = numbers(6, 16).to(layout.dtype), numbers(6, 8).to(layout.dtype)
    kept = x.clone(), residual.clone()
    layer = layout(numbers(8, 16), numbers(8))
    first = layer(x, residual=residual)
    assert torch.equal(x, kept[0])
    assert torch.equal(residual, kept[1])
    assert torch.equal(layer(x, residual=residual), first)


@layouts
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_a_gate_is_activated_and_multiplied(layout: Layout, activation: str) -> None:
    x, gate, up = numbers(6, 16), numbers(8, 16) / 4, numbers(8, 16).flip(0) / 4
    b, c, residual = numbers(8), numbers(8).flip(0), 3 * numbers(6, 8)
    given = (tensor.to(layout.dtype).float() for tensor in (x, gate, up, b, c))
    x, gate, up, b, c = given
    layer = layout.gated((gate, b), (up, c), activation)
    expected = reference(F.linear(x, gate, b), activation) * F.linear(x, up, c)
    rounding = 2 * ROUNDING[layout.dtype]
    y = layer(x.to(layout.dtype))
    torch.testing.assert_close(y.float(), expected, atol=rounding, rtol=rounding)
    y = layer(x.to(layout.dtype), residual=residual.to(layout.dtype))
    torch.testing.assert_close(y.float(), expected + residual, atol=2 * rounding, rtol=rounding)


def test_an_observed_layer_remembers_the_largest_of_each_input_and_changes_nothing() -> None:
    layout = Observed()
    weight, bias = numbers(8, 16), numbers(8)
    layer = layout(weight, bias, "gelu", name="up")
    first, second = numbers(6, 16), -3 * numbers(5, 16)
    for x in (first, second):
        assert torch.equal(layer(x), Plain(CPU, torch.float32)(weight, bias, "gelu")(x))
    expected = torch.cat([first, second]).abs().amax(dim=0)
    assert torch.equal(layout.peaks["up"], expected)
