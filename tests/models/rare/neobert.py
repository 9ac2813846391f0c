"""NeoBERT as it is published, in the plainest words: transformers has none.

Le Breton et al. 2025 (arXiv 2502.19587): each head has its query, key and value in consecutive
rows of one matrix, and pairs of neighbouring features are turned as complex numbers.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from tests.models.random_weights import random_tensors


@dataclass(frozen=True)
class Reference:
    """Reference that computes one text at a time from a checkpoint's tensors."""

    tensors: dict[str, Tensor]
    layers: int
    heads: int
    eps: float

    def __call__(self, ids: Tensor) -> list[Tensor]:
        """The hidden states of all layers, the last ones normalised: (length, D) each."""
        states = [self.tensors["encoder.weight"][ids]]
        for i in range(self.layers):
            name = f"transformer_encoder.{i}"
            x = states[-1] + self.attention(name, self.norm(f"{name}.attention_norm", states[-1]))
            states.append(x + self.ffn(name, self.norm(f"{name}.ffn_norm", x)))
        return [*states[:-1], self.norm("layer_norm", states[-1])]

    def ffn(self, name: str, x: Tensor) -> Tensor:
        both = x @ self.tensors[f"{name}.ffn.w12.weight"].T
        half = both.shape[1] // 2
        gate, value = both[:, :half], both[:, half:]
        return (gate * torch.sigmoid(gate) * value) @ self.tensors[f"{name}.ffn.w3.weight"].T

    def attention(self, name: str, x: Tensor) -> Tensor:
        size = x.shape[1] // self.heads
        rows = torch.split(self.tensors[f"{name}.qkv.weight"], 3 * size)
        mixed = []
        for head in rows:
            query, key, value = (x @ part.T for part in torch.split(head, size))
            scores = (turned(query) @ turned(key).T / size**0.5).softmax(dim=-1)
            mixed.append(scores @ value)
        return torch.cat(mixed, dim=-1) @ self.tensors[f"{name}.wo.weight"].T

    def norm(self, name: str, x: Tensor) -> Tensor:
        scale = (x.square().mean(dim=-1, keepdim=True) + self.eps).rsqrt()
        return x * scale * self.tensors[f"{name}.weight"]


def turned(x: Tensor) -> Tensor:
    """Rotate pairs (2 i, 2 i + 1) of features by the position / 10,000^(2 i / size)."""
    pairs = torch.view_as_complex(x.reshape(len(x), -1, 2).contiguous())
    speeds = 10_000.0 ** (-torch.arange(pairs.shape[1], dtype=torch.float64) / pairs.shape[1])
    angles = torch.arange(len(x), dtype=torch.float64)[:, None] * speeds
    turns = torch.polar(torch.ones_like(angles), angles).to(torch.complex64)
    return torch.view_as_real(pairs * turns).flatten(1)


def tensors(width: int, inner: int, layers: int, rows: int) -> dict[str, Tensor]:
    """Random weights with the names of NeoBERT's checkpoints. inner: the computed width."""
    shapes: dict[str, tuple[int, ...]] = {"encoder.weight": (rows, width)}
    norms = ["layer_norm.weight"]
    for i in range(layers):
        name = f"transformer_encoder.{i}"
        norms += [f"{name}.attention_norm.weight", f"{name}.ffn_norm.weight"]
        shapes[f"{name}.qkv.weight"] = (3 * width, width)
        shapes[f"{name}.wo.weight"] = (width, width)
        shapes[f"{name}.ffn.w12.weight"] = (2 * inner, width)
        shapes[f"{name}.ffn.w3.weight"] = (width, inner)
    shapes |= dict.fromkeys(norms, (width,))
    return random_tensors(shapes)
