"""Measure what limits any program on this machine: matrix products, attention, copies, launches.

The results are in env.json. A measurement that this GPU or torch does not support is an error text.
"""

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from deploy.gpu.device import CUDA, DEVICE
from deploy.gpu.results import OUT, brief

Work = Callable[[], Any]


class Shape(NamedTuple):
    """A matrix product: (rows, inputs) times (inputs, outputs)."""

    rows: int
    inputs: int
    outputs: int

    def tflops(self, work: Work) -> float:
        """Return the TFLOP/s of a function that computes the product."""
        return 2 * self.rows * self.inputs * self.outputs / seconds(work) / 1e12

    def operands(self, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
        """Return random inputs, weight and bias."""
        sizes = ((self.rows, self.inputs), (self.outputs, self.inputs), (self.outputs,))
        x, weight, bias = (torch.randn(*size, device=DEVICE).to(dtype) for size in sizes)
        return x, weight, bias


# Linear layers of all-MiniLM-L6-v2, bge-base and bge-large.
LAYERS = (
    *((384, 1152), (384, 1536), (1536, 384)),
    *((768, 2304), (768, 3072), (3072, 768)),
    (1024, 4096),
)
ROWS = (1024, 16384)
HEADS = ((12, 32), (12, 64), (16, 64))
PACKED = ((1024, 16, 16), (1024, 16, 1024), (16384, 16, 16), (16384, 128, 128), (16384, 512, 512))
"""Tokens of a batch, tokens of a text, and the length that the kernel's grid is made for."""


def seconds(work: Work, limit: float = 0.08) -> float:
    """Return the median seconds of a call: by events on a GPU, else by the clock."""
    for _ in range(3):
        work()
    if not CUDA:
        start = time.perf_counter()
        work()
        return time.perf_counter() - start
    torch.cuda.synchronize()
    times: list[float] = []
    end = time.perf_counter() + limit
    while len(times) < 5 or (time.perf_counter() < end and len(times) < 50):
        times.append(_event_seconds(work))
    return sorted(times)[len(times) // 2]


def _event_seconds(work: Work, calls: int = 4) -> float:
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    first.record()
    for _ in range(calls):
        work()
    last.record()
    last.synchronize()
    milliseconds: float = first.elapsed_time(last)
    return milliseconds / 1e3 / calls


def linear(shape: Shape, dtype: torch.dtype) -> float:
    """Return the TFLOP/s of torch's linear layer."""
    x, weight, bias = shape.operands(dtype)
    return shape.tflops(lambda: F.linear(x, weight, bias))


def linear_by_cublaslt(shape: Shape) -> float:
    """Return the TFLOP/s of a bfloat16 layer by cuBLASLt."""
    before = torch.backends.cuda.preferred_blas_library()
    torch.backends.cuda.preferred_blas_library("cublaslt")
    try:
        return linear(shape, torch.bfloat16)
    finally:
        torch.backends.cuda.preferred_blas_library(before)


def linear_with_gelu(shape: Shape) -> float:
    """Return the TFLOP/s of a bfloat16 layer with GELU in the same kernel."""
    x, weight, bias = shape.operands(torch.bfloat16)
    fused = torch.ops.aten._addmm_activation
    return shape.tflops(lambda: fused(bias, x, weight.T, use_gelu=True))


def linear_fp8(shape: Shape, *, by_row: bool) -> float:
    """Return the TFLOP/s of a product in float8. by_row: a scale for each row, else one for all."""
    x, weight, _ = shape.operands(torch.float8_e4m3fn)
    scale_sizes = ((shape.rows, 1), (1, shape.outputs)) if by_row else ((), ())
    scale_x, scale_weight = (torch.ones(size, device=DEVICE) for size in scale_sizes)
    return shape.tflops(
        lambda: torch._scaled_mm(
            x,
            weight.T,
            scale_a=scale_x,
            scale_b=scale_weight,
            out_dtype=torch.bfloat16,
            use_fast_accum=True,
        )
    )


def linear_int8(shape: Shape) -> float:
    """Return the TOP/s of a product in int8."""
    x, weight, _ = shape.operands(torch.int8)
    return shape.tflops(lambda: torch._int_mm(x, weight.T))


def layer_rates(shape: Shape) -> dict[str, Any]:
    """Return the rates of a linear layer in several ways."""
    ways: dict[str, Callable[[Shape], float]] = {
        "bf16": partial(linear, dtype=torch.bfloat16),
        "bf16_lt": linear_by_cublaslt,
        "gelu": linear_with_gelu,
        "fp8_row": partial(linear_fp8, by_row=True),
        "fp8_tensor": partial(linear_fp8, by_row=False),
        "int8": linear_int8,
    }

    def rate(measure: Callable[[Shape], float]) -> Any:
        return attempt(lambda: round(measure(shape)))

    return {name: rate(measure) for name, measure in ways.items()}


def attention_us(heads: tuple[int, int], packed: tuple[int, int, int]) -> float:
    """Return the microseconds of FlashAttention over packed texts, of HEADS and PACKED."""
    (count, size), (tokens, length, grid) = heads, packed
    qkv = torch.randn(tokens, 3 * count, size, device=DEVICE, dtype=torch.bfloat16)
    query, key, value = torch.split(qkv, [count] * 3, dim=1)
    ends = torch.arange(0, tokens + 1, length, device=DEVICE, dtype=torch.int32)
    kernel = torch.ops.aten._flash_attention_forward
    work = partial(kernel, query, key, value, ends, ends, grid, grid, 0.0, False, False)
    return round(seconds(work) * 1e6, 1)


def copies() -> dict[str, float]:
    """Return the bandwidth on the device, and microseconds of copies to and from it."""
    source = torch.empty(1 << (31 if CUDA else 20), dtype=torch.uint8, device=DEVICE)
    target = torch.empty_like(source)
    bandwidth = 2 * source.numel() / seconds(lambda: target.copy_(source)) / 1e12
    found = {"device_TB/s": bandwidth}
    for size in (1 << 12, 1 << 24) if CUDA else ():
        host, there = torch.empty(size, dtype=torch.uint8).pin_memory(), source[:size]
        to_device = partial(there.copy_, host, non_blocking=True)
        to_host = partial(host.copy_, there, non_blocking=True)
        found[f"to_device_{size}_us"] = 1e6 * seconds(to_device)
        found[f"to_host_{size}_us"] = 1e6 * seconds(to_host)
    return found


@torch.inference_mode()
def launches() -> dict[str, float]:
    """Return the microseconds of the host: for small kernels, a copy, and waiting for an event."""
    x, square = torch.zeros(16, device=DEVICE), torch.zeros(16, 16, device=DEVICE)
    found = {
        "add_us": host_us(lambda: x.add_(1)),
        "linear_us": host_us(lambda: F.linear(square, square)),
    }
    if CUDA:
        ids = torch.zeros(4096, dtype=torch.int64)
        found["pin_and_copy_us"] = host_us(lambda: ids.pin_memory().to(DEVICE, non_blocking=True))
        for name, blocking in (("sleeping", True), ("spinning", False)):
            found[f"add_and_wait_{name}_us"] = host_us(_add_and_wait(x, blocking))
    return found


def _add_and_wait(x: Tensor, blocking: bool) -> Work:
    event = torch.cuda.Event(blocking=blocking)  # type: ignore[no-untyped-call]

    def work() -> None:
        x.add_(1)
        event.record()
        event.synchronize()

    return work


def host_us(work: Work, count: int = 300) -> float:
    """Return the mean microseconds until a call returns."""
    work()
    if CUDA:
        torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(count):
        work()
    took = time.perf_counter() - start
    if CUDA:
        torch.cuda.synchronize()
    return round(took / count * 1e6, 1)


def attempt(work: Work) -> Any:
    """Return the result of a measurement, or its error as a text."""
    try:
        return work()
    except Exception as error:
        return brief(error)


def machine() -> dict[str, Any]:
    """Return the versions, the cores and the device."""
    found: dict[str, Any] = {
        "device": torch.cuda.get_device_name() if CUDA else "cpu",
        "torch": torch.__version__,
        "python": platform.python_version(),
        "cores": os.cpu_count(),
    }
    if CUDA:
        fields = "name,driver_version,memory.total,clocks.sm"
        command = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv"]
        found["nvidia_smi"] = attempt(lambda: subprocess.check_output(command, text=True))
    return found


def measurements() -> Iterator[tuple[str, Work]]:
    """Yield each measurement with its name; those of layers and attention need a GPU."""
    side = 8192 if CUDA else 256
    square, half = Shape(side, side, side), Shape(side // 2, side // 2, side // 2)
    yield "bf16_tflops", partial(linear, square, torch.bfloat16)
    yield "copies", copies
    yield "launches", launches
    yield "fp16_tflops", partial(linear, square, torch.float16)
    yield "float32_tflops", partial(linear, half, torch.float32)
    if CUDA:
        for rows, (inputs, outputs) in product(ROWS, LAYERS):
            shape = Shape(rows, inputs, outputs)
            yield f"layer {rows}x{inputs}x{outputs}", partial(layer_rates, shape)
        for heads, packed in product(HEADS, PACKED):
            (count, size), (tokens, length, grid) = heads, packed
            name = f"attention {count}x{size}, {tokens} tokens of {length}, grid for {grid}, us"
            yield name, partial(attention_us, heads, packed)


def main() -> None:
    found = machine()
    if not CUDA:
        sys.stdout.write("no GPU: every step runs on the CPU, with little work\n")
    for name, work in measurements():
        found[name] = attempt(work)
        (OUT / "env.json").write_text(json.dumps(found, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
