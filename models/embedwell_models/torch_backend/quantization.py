"""Quantisation of weights to 8-bit integers.

N outputs, K inputs.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

# SmoothQuant's migration strength: the share of the inputs' spread that moves to the weights. Tuned
# by the cosines of pooled vectors. Rounding errors of weights are the same for every token, so they
# do not average out in a pooled text, least of all in layers that write to the residual stream.
_ALPHAS = {"qkv": 0.5, "down": 0.3}
_ALPHA = 0.4  # strength of the other layers


@dataclass(frozen=True)
class QuantizedWeight:
    """Weight in int8 with its scales.

    weight: (N, K). scales, sums: (N,), one for each row. smoothing: (K,), factors of the inputs.
    """

    weight: Tensor
    scales: Tensor
    smoothing: Tensor

    @property
    def sums(self) -> Tensor:
        return self.weight.sum(dim=1, dtype=torch.int32)


def quantize_weight(weight: Tensor, input_magnitudes: Tensor, name: str) -> QuantizedWeight:
    """Quantise a float32 weight (N, K) with one scale per row (SmoothQuant, arXiv 2211.10438).

    input_magnitudes: (K,). A large magnitude divides the input and multiplies the weight, so that
    both are easy to round. name: name of the linear layer, such as 'layers.0.up'.
    """
    alpha = _ALPHAS.get(name.rpartition(".")[2], _ALPHA)
    # A row with a large norm is rounded in large steps, and writes an outlier to the residual
    # stream that dominates the next norm. Columns that are large in such rows must not grow.
    lengths = weight.norm(dim=1, keepdim=True)
    columns = (weight.square() * lengths).mean(dim=0).sqrt().clamp(min=1e-5)
    factors = (input_magnitudes.clamp(min=1e-5) ** alpha / columns ** (1 - alpha)).clamp(min=1e-5)
    smooth = weight * factors
    scales = smooth.abs().amax(dim=1).clamp(min=1e-30) / 127
    rounded = (smooth / scales[:, None]).round().to(torch.int8)
    return QuantizedWeight(rounded, scales, 1 / factors)
