"""Weights as 8-bit integers that keep a product faithful.

N outputs, K inputs.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

_ALPHA = 0.5  # how much of the activations' range the weights take over


@dataclass(frozen=True)
class Quantized:
    """weight: (N, K) int8. scales, sums: (N,) of each row. smoothing: (K,), times the input."""

    weight: Tensor
    scales: Tensor
    smoothing: Tensor

    @property
    def sums(self) -> Tensor:
        return self.weight.sum(dim=1, dtype=torch.int32)


def quantize(weight: Tensor, peaks: Tensor) -> Quantized:
    """Round a float32 weight (N, K), one scale to a row, after SmoothQuant (arXiv 2211.10438).

    peaks: (K,) the largest magnitude of each input. Where it is large, the input is divided and
    the weight multiplied, so that both are easy to round.
    """
    tall = weight.abs().amax(dim=0).clamp(min=1e-5)
    factors = (peaks.clamp(min=1e-5) ** _ALPHA / tall ** (1 - _ALPHA)).clamp(min=1e-5)
    smooth = weight * factors
    scales = smooth.abs().amax(dim=1).clamp(min=1e-30) / 127
    rounded = (smooth / scales[:, None]).round().to(torch.int8)
    return Quantized(rounded, scales, 1 / factors)
