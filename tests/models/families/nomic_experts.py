"""Nomic's second BERT as it is published, in the plainest words: transformers has none.

Nussbaum and Duderstadt 2025 (arXiv 2502.07972): every second feed-forward network is a mixture of
experts, of which a token passes two, each with its share by a softmax over all.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True)
class Reference:
    """Reference that computes one text at a time from a checkpoint's tensors."""

    tensors: dict[str, Tensor]
    layers: int
    heads: int
    experts: int
    top: int

    def __call__(self, ids: Tensor) -> list[Tensor]:
        """The hidden states of all layers: (length, D) each."""
        x = self.tensors["embeddings.word_embeddings.weight"][ids]
        x = x + self.tensors["embeddings.token_type_embeddings.weight"][0]
        states = [self.norm("emb_ln", x)]
        for i in range(self.layers):
            name = f"encoder.layers.{i}"
            mixed = self.norm(f"{name}.norm1", states[-1] + self.attention(name, states[-1]))
            ffn = self.mixture if i % 2 else self.dense
            states.append(self.norm(f"{name}.norm2", mixed + ffn(f"{name}.mlp", mixed)))
        return states

    def dense(self, name: str, x: Tensor) -> Tensor:
        return self.linear(f"{name}.fc2", F.gelu(self.linear(f"{name}.fc1", x)))

    def mixture(self, name: str, x: Tensor) -> Tensor:
        shares = (x @ self.tensors[f"{name}.router.layer.weight"].T).softmax(dim=-1)
        w1, w2 = (
            self.tensors[f"{name}.experts.mlp.{part}"].view(self.experts, -1, x.shape[1])
            for part in ("w1", "w2")
        )
        rows = []
        for token, share in zip(x, shares, strict=True):
            chosen = share.argsort(descending=True)[: self.top]
            rows.append(sum(share[e] * (F.gelu(w1[e] @ token) @ w2[e]) for e in chosen))
        return torch.stack(rows) + self.tensors[f"{name}.experts.bias"]

    def attention(self, name: str, x: Tensor) -> Tensor:
        size = x.shape[1] // self.heads
        query, key, value = self.linear(f"{name}.attn.Wqkv", x).chunk(3, dim=-1)
        mixed = []
        for head in range(self.heads):
            q, k, v = (part[:, head * size : (head + 1) * size] for part in (query, key, value))
            scores = (turned(q) @ turned(k).T / size**0.5).softmax(dim=-1)
            mixed.append(scores @ v)
        return self.linear(f"{name}.attn.out_proj", torch.cat(mixed, dim=-1))

    def linear(self, name: str, x: Tensor) -> Tensor:
        return F.linear(x, self.tensors[f"{name}.weight"], self.tensors[f"{name}.bias"])

    def norm(self, name: str, x: Tensor) -> Tensor:
        weight, bias = self.tensors[f"{name}.weight"], self.tensors[f"{name}.bias"]
        return F.layer_norm(x, weight.shape, weight, bias, 1e-5)


def turned(x: Tensor) -> Tensor:
    """Rotate pairs (i, i + half) of features by the position / 10,000^(2i / size)."""
    half = x.shape[1] // 2
    speeds = 10_000.0 ** (-torch.arange(half, dtype=torch.float64) / half)
    angles = torch.arange(len(x), dtype=torch.float64)[:, None] * speeds
    cosine, sine = angles.cos().float(), angles.sin().float()
    first, second = x[:, :half], x[:, half:]
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine], dim=1)


def tensors(width: int, inner: int, layers: int, rows: int, experts: int) -> dict[str, Tensor]:
    """Random weights with the names of Nomic's checkpoints."""
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (rows, width),
        "embeddings.token_type_embeddings.weight": (1, width),
    }
    linear = {}
    norms = ["emb_ln"]
    for i in range(layers):
        name = f"encoder.layers.{i}"
        norms += [f"{name}.norm1", f"{name}.norm2"]
        linear[f"{name}.attn.Wqkv"] = (3 * width, width)
        linear[f"{name}.attn.out_proj"] = (width, width)
        if i % 2:
            shapes[f"{name}.mlp.router.layer.weight"] = (experts, width)
            shapes[f"{name}.mlp.experts.mlp.w1"] = (experts * inner, width)
            shapes[f"{name}.mlp.experts.mlp.w2"] = (experts * inner, width)
            shapes[f"{name}.mlp.experts.bias"] = (width,)
        else:
            linear[f"{name}.mlp.fc1"] = (inner, width)
            linear[f"{name}.mlp.fc2"] = (width, inner)
    for name, shape in linear.items():
        shapes[f"{name}.weight"], shapes[f"{name}.bias"] = shape, shape[:1]
    for name in norms:
        shapes[f"{name}.weight"] = shapes[f"{name}.bias"] = (width,)
    noise = torch.Generator().manual_seed(7)
    random = {name: torch.randn(shape, generator=noise) * 0.3 for name, shape in shapes.items()}
    return {
        name: part + 1 if name.removesuffix(".weight") in norms else part
        for name, part in random.items()
    }
