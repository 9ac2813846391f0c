"""Tests of the Triton kernels on a GPU, compared with torch in float32."""

import pytest
import torch

from embedwell_models.torch_backend.linear import ACTIVATIONS, LinearFactory, TorchLinearFactory
from embedwell_models.torch_backend.linear_choice import torch_linear_factory
from embedwell_models.torch_backend.pooling import POOLINGS, pool
from embedwell_models.torch_backend.sequence_layout import SequenceLayout
from embedwell_models.torch_backend.triton_kernels.linear import GpuLinearFactory
from tests.gpu.card import since_ampere

pytestmark = [pytest.mark.gpu, since_ampere]

CPU, CUDA = torch.device("cpu"), torch.device("cuda")
LENGTHS = [1, 200, 0, 17]
every_dtype = pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)


def numbers(*shape: int) -> torch.Tensor:
    noise = torch.randn(*shape, generator=torch.Generator().manual_seed(len(shape)))
    return noise.bfloat16().half().float()


@every_dtype
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_linear_layers_are_those_of_torch(activation: str, dtype: torch.dtype) -> None:
    factory = torch_linear_factory(CUDA, dtype)
    assert isinstance(factory, GpuLinearFactory)
    exact: LinearFactory = TorchLinearFactory(CPU, torch.float32)
    x, gate = numbers(70, 64), (numbers(96, 64) / 8, numbers(96))
    pair = numbers(96, 64) / 4, numbers(96) * 2
    for build in ("plain", "gated"):
        mine, plain = (
            each.gated(gate, pair, activation) if build == "gated" else each(*pair, activation)
            for each in (factory, exact)
        )
        found = mine(x.to(CUDA, dtype)).float().cpu()
        torch.testing.assert_close(found, plain(x), atol=0.1, rtol=0.05)


@every_dtype
def test_the_maximum_over_rows_is_that_of_torch(dtype: torch.dtype) -> None:
    exact: LinearFactory = TorchLinearFactory(CPU, torch.float32)
    x, pair = numbers(sum(LENGTHS), 64), (numbers(1000, 64) / 8, numbers(1000))
    on_gpu, on_cpu = (SequenceLayout(LENGTHS, device) for device in (CUDA, CPU))
    found = torch_linear_factory(CUDA, dtype).row_maximum(*pair)(x.to(CUDA, dtype), on_gpu)
    expected = exact.row_maximum(*pair)(x, on_cpu)
    torch.testing.assert_close(found.float().cpu(), expected, atol=0.05, rtol=0.02)


@pytest.mark.parametrize("skipped", [None, [0, 3, 0, 40]], ids=["none", "some"])
def test_poolings_are_those_of_the_processor(skipped: list[int] | None) -> None:
    layouts = [SequenceLayout(LENGTHS, device, skipped=skipped) for device in (CPU, CUDA)]
    hidden = numbers(layouts[0].rows, 96)
    expected, found = (
        pool(hidden.to(device), layout, [*POOLINGS])
        for layout, device in zip(layouts, (CPU, CUDA), strict=True)
    )
    torch.testing.assert_close(found.cpu(), expected, atol=1e-5, rtol=1e-5)
