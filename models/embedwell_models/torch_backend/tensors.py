"""Arrays of a checkpoint as tensors of torch."""

from collections.abc import Mapping

import torch
from torch import Tensor

from embedwell_models.vectors import Floats

Tensors = Mapping[str, Tensor]


def pair_to_tensors(pair: tuple[Floats, Floats]) -> tuple[Tensor, Tensor]:
    """Return tensors that share the memory of two arrays, such as a weight and its bias."""
    first, second = pair
    return torch.from_numpy(first), torch.from_numpy(second)


def to_tensors(arrays: Mapping[str, Floats] | Tensors) -> dict[str, Tensor]:
    """Return tensors that share the memory of the arrays; tensors stay as they are."""
    return {name: torch.as_tensor(array) for name, array in arrays.items()}
