"""Tests of linear layers in every weight layout and precision."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from transformers.activations import ACT2FN

from embedwell_models.config.layer_spec import ACTIVATIONS as NAMES
from embedwell_models.cpu_backend import library
from embedwell_models.cpu_backend.linear import KernelLinearFactory
from embedwell_models.cpu_backend.prepack import Packing
from embedwell_models.torch_backend.encoder_factory import torch_bfloat16_is_usable
from embedwell_models.torch_backend.linear import (
    ACTIVATIONS,
    LinearFactory,
    OneDnnLinearFactory,
    TorchLinearFactory,
)
from embedwell_models.torch_backend.linear_adapters import TensorKernelLinearFactory

CPU, GPU = torch.device("cpu"), torch.device("cuda")
ROUNDING = {torch.float32: 1e-5, torch.bfloat16: 2e-2}
DTYPES = [torch.float32] + [torch.bfloat16] * torch_bfloat16_is_usable(library.features())

FACTORIES: list[LinearFactory] = [
    kind
    for dtype in DTYPES
    for kind in (TorchLinearFactory(CPU, dtype), OneDnnLinearFactory(dtype))
]
if isa := library.best_isa("float32"):
    FACTORIES.append(TensorKernelLinearFactory(KernelLinearFactory(isa, Packing("float32"))))

every_factory = pytest.mark.parametrize(
    "factory", FACTORIES, ids=lambda factory: f"{type(factory).__name__}-{factory.dtype}"
)


def reference(y: Tensor, activation: str) -> Tensor:
    """The activations as their papers write them."""
    if activation == "gelu":
        return y * (1 + torch.erf(y / 2**0.5)) / 2
    if activation == "gelu_tanh":
        return y * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (y + 0.044715 * y**3))) / 2
    if activation in ("silu", "gelu_sigmoid"):
        return y / (1 + torch.exp(-(1.702 if activation == "gelu_sigmoid" else 1) * y))
    if activation == "tanh":
        return 1 - 2 / (1 + torch.exp(2 * y))
    return y.clamp(min=0) if activation == "relu" else y


def numbers(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(len(shape)))


@every_factory
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_a_layer_is_product_bias_and_activation(factory: LinearFactory, activation: str) -> None:
    x, weight, bias = numbers(6, 16), numbers(8, 16) / 4, numbers(8)
    x, weight, bias = (tensor.to(factory.dtype).float() for tensor in (x, weight, bias))
    y = factory(weight, bias, activation)(x.to(factory.dtype))
    assert y.dtype == factory.dtype
    expected = reference(F.linear(x.double(), weight.double(), bias.double()), activation)
    rounding = ROUNDING[factory.dtype]
    torch.testing.assert_close(y.double(), expected, atol=rounding, rtol=rounding)


@pytest.mark.parametrize("name", sorted(NAMES.keys() & ACT2FN.keys()))
def test_an_activation_is_what_transformers_calls_so(name: str) -> None:
    x = numbers(50, 20)
    torch.testing.assert_close(ACTIVATIONS[NAMES[name]].function(x), ACT2FN[name](x))


@every_factory
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_a_gated_layer_is_the_product_of_two(factory: LinearFactory, activation: str) -> None:
    x, gate, up = (
        numbers(6, 16),
        (numbers(8, 16) / 4, numbers(8)),
        (-numbers(8, 16), 2 * numbers(8)),
    )
    y = factory.gated(gate, up, activation)(x.to(factory.dtype))
    first, second = (F.linear(x.double(), *(part.double() for part in each)) for each in (gate, up))
    expected, rounding = reference(first, activation) * second, 4 * ROUNDING[factory.dtype]
    torch.testing.assert_close(y.double(), expected, atol=4 * rounding, rtol=rounding)


@every_factory
def test_a_residual_is_added_to_a_gated_layer(factory: LinearFactory) -> None:
    x, residual = numbers(6, 16).to(factory.dtype), numbers(6, 8).to(factory.dtype)
    gated = factory.gated((numbers(8, 16), numbers(8)), (numbers(8, 16), numbers(8)), "silu")
    torch.testing.assert_close(gated(x, residual=residual), gated(x) + residual)


@every_factory
def test_a_residual_is_added(factory: LinearFactory) -> None:
    x, weight, bias, residual = numbers(6, 16), numbers(8, 16) / 4, numbers(8), 3 * numbers(6, 8)
    y = factory(weight, bias)(x.to(factory.dtype), residual=residual.to(factory.dtype))
    rounding = 2 * ROUNDING[factory.dtype]
    expected = F.linear(x, weight, bias) + residual
    torch.testing.assert_close(y.float(), expected, atol=2 * rounding, rtol=rounding)


@every_factory
def test_a_call_changes_none_of_its_inputs(factory: LinearFactory) -> None:
    x, residual = numbers(6, 16).to(factory.dtype), numbers(6, 8).to(factory.dtype)
    kept = x.clone(), residual.clone()
    layer = factory(numbers(8, 16), numbers(8))
    first = layer(x, residual=residual)
    assert torch.equal(x, kept[0])
    assert torch.equal(residual, kept[1])
    assert torch.equal(layer(x, residual=residual), first)
