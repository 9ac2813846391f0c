"""Quantisation of weights to 8-bit integers.

N outputs, K inputs.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

# SmoothQuant's migration strength: how much of the inputs' spread moves to the weights. Tuned by
# the cosines of pooled vectors: rounding errors of weights are the same for every token and do not
# average out in a pooled text, least of all in the layers that write to the residual stream.
_ALPHAS = {"qkv": 0.5, "down": 0.3}
_ALPHA = 0.4  # of the other layers


@dataclass(frozen=True)
class QuantizedWeight:
    """A weight in int8, with its scales.

    weight: (N, K). scales, sums: (N,) of each row. smoothing: (K,), multiplies inputs.
    """

    weight: Tensor
    scales: Tensor
    smoothing: Tensor

    @property
    def sums(self) -> Tensor:
        return self.weight.sum(dim=1, dtype=torch.int32)


def quantize_weight(weight: Tensor, input_magnitudes: Tensor, name: str) -> QuantizedWeight:
    """Quantise a float32 weight (N, K) with one scale per row (SmoothQuant, arXiv 2211.10438).

    input_magnitudes: (K,). Where they are large, the input is divided and the weight multiplied, so
    that both are easy to round. name: of the linear layer, 'layers.0.up'.
    """
    alpha = _ALPHAS.get(name.rpartition(".")[2], _ALPHA)
    # A row of large norm is rounded in large steps, and writes an outlier to the residual stream,
    # which dominates the next norm: columns that are large in such rows must not grow.
    lengths = weight.norm(dim=1, keepdim=True)
    columns = (weight.square() * lengths).mean(dim=0).sqrt().clamp(min=1e-5)
    factors = (input_magnitudes.clamp(min=1e-5) ** alpha / columns ** (1 - alpha)).clamp(min=1e-5)
    smooth = weight * factors
    scales = smooth.abs().amax(dim=1).clamp(min=1e-30) / 127
    rounded = (smooth / scales[:, None]).round().to(torch.int8)
    return QuantizedWeight(rounded, scales, 1 / factors)
