"""Projections of tokens with random weights, as models of pages over a Qwen-VL have one."""

from typing import Any

import torch
from torch import Tensor

NAME = "custom_text_proj"


def random_projection(width: int) -> torch.nn.Linear:
    """Create a projection of states of 64 numbers."""
    head = torch.nn.Linear(64, width)
    for part, seed in ((head.weight, 1), (head.bias, 2)):
        torch.nn.init.normal_(part, std=0.3, generator=torch.Generator().manual_seed(seed))
    return head


def head_tensors(head: torch.nn.Linear, name: str = NAME) -> dict[str, Tensor]:
    """The tensors of a projection by their names in a checkpoint."""
    return {f"{name}.{part}": each.detach() for part, each in head.named_parameters()}


def projected(states: Tensor, head: torch.nn.Module, width: int | None = None) -> Any:
    """The vectors of tokens: (tokens, width). width: of their first numbers; None for all."""
    return torch.nn.functional.normalize(head(states)[:, :width], dim=-1).numpy()
