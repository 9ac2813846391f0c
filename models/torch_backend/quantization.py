"""Weights as 8-bit integers that keep a product faithful.

N outputs, K inputs.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

# How much of the inputs' spread the weights take over. Found by the cosines of whole vectors:
# the weights' rounding is the same in every token and does not average out in a pooled text, least
# of all that of the products that write to the residual stream.
_ALPHAS = {"qkv": 0.5, "down": 0.3}
_ALPHA = 0.4  # of the others


@dataclass(frozen=True)
class Quantized:
    """weight: (N, K) int8. scales, sums: (N,) of each row. smoothing: (K,), times the input."""

    weight: Tensor
    scales: Tensor
    smoothing: Tensor

    @property
    def sums(self) -> Tensor:
        return self.weight.sum(dim=1, dtype=torch.int32)


def quantize(weight: Tensor, sizes: Tensor, name: str) -> Quantized:
    """Round a float32 weight (N, K), one scale to a row, after SmoothQuant (arXiv 2211.10438).

    sizes: (K,) the size of each input. Where it is large, the input is divided and the weight
    multiplied, so that both are easy to round. name: of the product, as in a checkpoint's layer.
    """
    alpha = _ALPHAS.get(name.rpartition(".")[2], _ALPHA)
    # A long row is rounded in large steps, and what it writes is an outlier in the residual stream,
    # of which the next norm is made: a column that is large there must not grow.
    lengths = weight.norm(dim=1, keepdim=True)
    columns = (weight.square() * lengths).mean(dim=0).sqrt().clamp(min=1e-5)
    factors = (sizes.clamp(min=1e-5) ** alpha / columns ** (1 - alpha)).clamp(min=1e-5)
    smooth = weight * factors
    scales = smooth.abs().amax(dim=1).clamp(min=1e-30) / 127
    rounded = (smooth / scales[:, None]).round().to(torch.int8)
    return Quantized(rounded, scales, 1 / factors)
