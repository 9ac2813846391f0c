"""Random weights, so large that a wrong activation, bias or norm shows."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from transformers.initialization import no_init_weights

_STD = 0.3


def without_weights(build: Callable[[], Any]) -> Any:
    """Build a model of transformers whose parameters are to be drawn, without weights of its own.

    One with parameters that are not trained, such as RoFormer's sinusoids, has its own weights.
    """
    with no_init_weights():
        model = build()
    if not all(parameter.requires_grad for parameter in model.parameters()):
        return build()
    model.tie_weights(recompute_mapping=False)
    return model


def randomize(model: Any, norms: float = 1.0) -> torch.Generator:
    """Draw every parameter from a normal distribution of standard deviation 0.3.

    The weights of norms are around `norms`, all others around 0. Returns the source of the numbers.
    """
    noise = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:  # RoFormer has a table of sinusoids
                parameter.normal_(norms if _is_norm(name) else 0.0, _STD, generator=noise)
    return noise


def random_tensors(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Tensor]:
    """Tensors of the same distributions, by their names and shapes."""
    noise = torch.Generator().manual_seed(7)
    return {
        name: torch.randn(shape, generator=noise) * _STD + _is_norm(name)
        for name, shape in shapes.items()
    }


def _is_norm(name: str) -> bool:
    return "norm" in name.lower() and name.endswith("weight")
