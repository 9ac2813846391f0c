"""The model as one graph from padded token ids to vectors, for the engines that convert it."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor


class Graph(torch.nn.Module):
    """The encoder with mean pooling and normalisation, as all-MiniLM-L6-v2 has them.

    attention: transformers' name of how it is written down; engines recognise different ones.
    """

    def __init__(self, folder: str, attention: str) -> None:
        from transformers import AutoModel

        super().__init__()
        self.encoder: Any = AutoModel.from_pretrained(folder, attn_implementation=attention)
        self.eval()

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """(B, L) and (B, L) -> (B, D)."""
        hidden = self.encoder(input_ids=input_ids, attention_mask=attention_mask)[0]
        held = attention_mask.unsqueeze(-1).to(hidden.dtype)
        return torch.nn.functional.normalize((hidden * held).sum(1) / held.sum(1), dim=-1)


def example() -> dict[str, Tensor]:
    """Inputs to trace the graph with; one row is padded."""
    mask = torch.ones(3, 17, dtype=torch.int64)
    mask[1, 9:] = 0
    return {"input_ids": torch.full_like(mask, 1000), "attention_mask": mask}


def kept(cache: str, folder: str, *parts: str) -> Path:
    """The folder for what was converted, by model and by whatever else decides the result."""
    path = Path(cache) / "converted" / "-".join((Path(folder).name, *parts))
    path.mkdir(parents=True, exist_ok=True)
    return path
