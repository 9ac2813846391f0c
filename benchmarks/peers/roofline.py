"""Print the rate of large matrix products with oneDNN, in GFLOP/s for each precision."""

import json
import sys
import time
from collections.abc import Callable

import torch

_SHAPES = ((2048, 2048, 2048), (4096, 1536, 1536))  # rows, in, out
_SECONDS = 0.4


def floating(dtype: torch.dtype, rows: int, size: int, out: int) -> Callable[[], object]:
    """Return a product with a prepacked weight."""
    x = torch.randn(rows, size).to(dtype)
    weight = torch.ops.mkldnn._reorder_linear_weight(torch.randn(out, size).to(dtype), rows)
    bias = torch.zeros(out, dtype=dtype)
    return lambda: torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")


def integer(rows: int, size: int, out: int) -> Callable[[], object]:
    """Return a product of bytes with a prepacked weight and a result of bytes."""
    x = torch.randint(0, 255, (rows, size), dtype=torch.uint8)
    plain = torch.randint(-127, 127, (out, size), dtype=torch.int8)
    weight = torch.ops.onednn.qlinear_prepack(plain, [rows, size])
    scales, zeros = torch.full((out,), 0.01), torch.zeros(out, dtype=torch.int64)
    bias = torch.zeros(out)
    return lambda: torch.ops.onednn.qlinear_pointwise(
        x, 0.01, 128, weight, scales, zeros, bias, 1.0, 128, torch.uint8, "none", [], ""
    )


def rate(product: Callable[[], object], flop: float) -> float:
    """Return the GFLOP/s of the fastest of many runs."""
    seconds = []
    end = time.perf_counter() + _SECONDS
    while (begin := time.perf_counter()) < end:
        product()
        seconds.append(time.perf_counter() - begin)
    return flop / min(seconds) / 1e9


def peak(build: Callable[[int, int, int], Callable[[], object]]) -> float | None:
    """Return the best rate over the shapes; None if torch does not support the product."""
    try:
        return max(rate(build(*shape), 2.0 * shape[0] * shape[1] * shape[2]) for shape in _SHAPES)
    except (RuntimeError, AttributeError) as error:
        print(f"roofline: {error}", file=sys.stderr)
        return None


if __name__ == "__main__":
    torch.set_num_threads(int(sys.argv[1]))
    with torch.inference_mode():
        peaks = {
            "float32": peak(lambda *shape: floating(torch.float32, *shape)),
            "bfloat16": peak(lambda *shape: floating(torch.bfloat16, *shape)),
            "int8": peak(integer),
        }
    print(json.dumps(peaks))
