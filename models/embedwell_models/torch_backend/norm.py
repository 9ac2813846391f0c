"""Layer and RMS normalisation on torch, also of a sum that is not computed yet.

T tokens, D hidden size.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.torch_backend.tensors import Tensors

Norm = Callable[[Tensor], Tensor]
"""Function of a norm: (..., D) -> (..., D)."""


@dataclass(frozen=True)
class LayerNorm:
    """Layer normalisation (Ba et al. 2016, arXiv 1607.06450) over the last dimension."""

    weight: Tensor
    bias: Tensor
    eps: float

    def __call__(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)


@dataclass(frozen=True)
class RMSNorm:
    """Root mean square normalisation (Zhang and Sennrich 2019, arXiv 1910.07467)."""

    weight: Tensor
    eps: float

    def __call__(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.weight.shape, self.weight, self.eps)


@dataclass(frozen=True)
class HeadNorms:
    """Norms of each head of queries and keys, which one kernel computes with their rotation.

    query_heads: number of the first heads, those of queries. weights, biases: (2, Dh), of queries
    and of keys. centred: whether they are layer norms, otherwise RMS norms without biases.
    """

    query_heads: int
    weights: Tensor
    biases: Tensor
    eps: float
    centred: bool

    @classmethod
    def of(cls, query: Norm, key: Norm, query_heads: int) -> "HeadNorms | None":
        """Return two norms of heads as one; None for norms of another kind."""
        if isinstance(query, RMSNorm) and isinstance(key, RMSNorm) and query.eps == key.eps:
            weights = torch.stack([query.weight, key.weight])
            return cls(query_heads, weights, weights, query.eps, centred=False)
        if isinstance(query, LayerNorm) and isinstance(key, LayerNorm) and query.eps == key.eps:
            weights = torch.stack([query.weight, key.weight])
            biases = torch.stack([query.bias, key.bias])
            return cls(query_heads, weights, biases, query.eps, centred=True)
        return None


@dataclass(frozen=True)
class AllHeadsNorm:
    """Norm over all heads together: (T, H, Dh) -> (T, H, Dh)."""

    norm: Norm

    def __call__(self, x: Tensor) -> Tensor:
        return self.norm(x.flatten(1)).view_as(x)


def identity(x: Tensor) -> Tensor:
    """Return the input; used if a model lacks a norm."""
    return x


@dataclass(frozen=True)
class Sum:
    """Sum residual + branch_norm(branch) of (T, D) each, which is computed with its norm.

    residual: None for zeros.
    """

    branch: Tensor
    residual: Tensor | None = None
    branch_norm: Norm = identity

    def evaluate(self) -> Tensor:
        """Compute the sum alone: (T, D)."""
        branch = self.branch_norm(self.branch)
        return branch if self.residual is None else self.residual + branch


class SumAndNorm(Protocol):
    """Compute a sum and its norm: (T, D) each.

    keeps_sum: False if the sum is not read; then it may not be computed, and holds anything.
    """

    def __call__(self, parts: Sum, norm: Norm, keeps_sum: bool = True) -> tuple[Tensor, Tensor]: ...


def sum_and_norm(parts: Sum, norm: Norm, keeps_sum: bool = True) -> tuple[Tensor, Tensor]:
    """Compute a sum and its norm on any device: (T, D) each."""
    total = parts.evaluate()
    return total, norm(total)


def build_norm(
    config: EncoderConfig,
    weights: Tensors,
    name: str,
    device: torch.device,
    dtype: torch.dtype = torch.float32,
) -> Norm:
    """Build the norm with a name; return `identity` if the checkpoint lacks it."""
    weight = weights.get(f"{name}.weight")
    if weight is None:
        return identity
    bias = weights.get(f"{name}.bias", torch.zeros_like(weight))
    if config.norm == "rms":
        return RMSNorm(weight.to(device, dtype), config.norm_eps)
    return LayerNorm(weight.to(device, dtype), bias.to(device, dtype), config.norm_eps)
