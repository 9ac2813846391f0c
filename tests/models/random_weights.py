"""Random weights, so large that a wrong activation, bias or norm shows."""

from typing import Any

import torch


def randomize(model: Any) -> None:
    """Draw every parameter from a normal distribution of standard deviation 0.3.

    The weights of norms are around 1, all others around 0.
    """
    noise = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            is_norm = "norm" in name.lower() and name.endswith("weight")
            if parameter.requires_grad:  # RoFormer has a table of sinusoids
                parameter.normal_(1.0 if is_norm else 0.0, 0.3, generator=noise)
