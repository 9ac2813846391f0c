"""JinaBERT as it is published, in the plainest words: transformers has none.

Günther et al. 2023 (arXiv 2310.19923): BERT with a penalty for distance on both sides (Press et
al. 2021, arXiv 2108.12409) and a gated feed-forward network (Shazeer 2020, arXiv 2002.05202). The
one for programming languages also normalises queries, keys and what the attention gives.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

ACTS: Mapping[str, Callable[[Tensor], Tensor]] = {"geglu": F.gelu, "reglu": F.relu}


@dataclass(frozen=True)
class Reference:
    """Reference that computes one text at a time from a checkpoint's tensors."""

    tensors: dict[str, Tensor]
    layers: int
    heads: int
    act: str
    eps: float
    code: bool

    def __call__(self, ids: Tensor) -> list[Tensor]:
        """The hidden states of all layers: (length, D) each."""
        found = self.tensors
        x = found["embeddings.word_embeddings.weight"][ids]
        x = x + found["embeddings.token_type_embeddings.weight"][0]
        states = [self.norm("embeddings.LayerNorm", x)]
        for i in range(self.layers):
            states.append(self.layer(f"encoder.layer.{i}", states[-1]))
        return states

    def layer(self, name: str, x: Tensor) -> Tensor:
        mixed = self.linear(f"{name}.attention.output.dense", self.attention(name, x))
        mixed = self.norm(f"{name}.attention.output.LayerNorm", mixed + x)
        if not self.code:
            gate, up = self.linear(f"{name}.mlp.gated_layers", mixed).chunk(2, dim=-1)
            down = self.linear(f"{name}.mlp.wo", ACTS[self.act](gate) * up)
            return self.norm(f"{name}.mlp.layernorm", down + mixed)
        mixed = self.norm(f"{name}.layer_norm_1", mixed + x)
        up, gate = self.linear(f"{name}.mlp.up_gated_layer", mixed).chunk(2, dim=-1)
        down = self.linear(f"{name}.mlp.down_layer", up * ACTS[self.act](gate))
        return self.norm(f"{name}.layer_norm_2", down + mixed)

    def attention(self, name: str, x: Tensor) -> Tensor:
        query, key, value = (
            self.linear(f"{name}.attention.self.{part}", x) for part in ("query", "key", "value")
        )
        if self.code:
            query = self.norm(f"{name}.attention.self.layer_norm_q", query)
            key = self.norm(f"{name}.attention.self.layer_norm_k", key)
        size = x.shape[1] // self.heads
        mixed = []
        for head, slope in enumerate(slopes(self.heads)):
            q, k, v = (part[:, head * size : (head + 1) * size] for part in (query, key, value))
            scores = q @ k.T / size**0.5
            for i in range(len(x)):
                for j in range(len(x)):
                    scores[i, j] -= slope * abs(i - j)
            mixed.append(scores.softmax(dim=-1) @ v)
        return torch.cat(mixed, dim=-1)

    def linear(self, name: str, x: Tensor) -> Tensor:
        return F.linear(x, self.tensors[f"{name}.weight"], self.tensors.get(f"{name}.bias"))

    def norm(self, name: str, x: Tensor) -> Tensor:
        centred = x - x.mean(dim=-1, keepdim=True)
        scaled = centred / (centred.pow(2).mean(dim=-1, keepdim=True) + self.eps).sqrt()
        return scaled * self.tensors[f"{name}.weight"] + self.tensors[f"{name}.bias"]


def slopes(heads: int) -> list[float]:
    """Halving steps for 8 heads; for 12, those of 8 and then every second one of 16."""
    known = {
        4: [1 / 4, 1 / 16, 1 / 64, 1 / 256],
        6: [1 / 4, 1 / 16, 1 / 64, 1 / 256, 1 / 2, 1 / 8],
    }
    return known[heads]


def tensors(width: int, inner: int, layers: int, vocabulary: int, code: bool) -> dict[str, Tensor]:
    """Random weights with the names of Jina's checkpoints."""
    norms = ["embeddings.LayerNorm"]
    shapes = {
        "embeddings.word_embeddings": (vocabulary, width),
        "embeddings.token_type_embeddings": (2, width),
        "pooler.dense": (width, width),
    }
    for i in range(layers):
        layer = f"encoder.layer.{i}"
        norms.append(f"{layer}.attention.output.LayerNorm")
        own = "layer_norm_1 layer_norm_2 attention.self.layer_norm_q attention.self.layer_norm_k"
        norms += [f"{layer}.{name}" for name in (own.split() if code else ["mlp.layernorm"])]
        for part in ("self.query", "self.key", "self.value", "output.dense"):
            shapes[f"{layer}.attention.{part}"] = (width, width)
        up, down = ("up_gated_layer", "down_layer") if code else ("gated_layers", "wo")
        shapes[f"{layer}.mlp.{up}"] = (2 * inner, width)
        shapes[f"{layer}.mlp.{down}"] = (width, inner)
    noise = torch.Generator().manual_seed(7)
    found = {}
    for name in norms:
        found[f"{name}.weight"] = 1 + 0.3 * torch.randn(width, generator=noise)
        found[f"{name}.bias"] = 0.3 * torch.randn(width, generator=noise)
    for name, shape in shapes.items():
        found[f"{name}.weight"] = 0.3 * torch.randn(shape, generator=noise)
        if "embeddings" not in name and "gated" not in name:
            found[f"{name}.bias"] = 0.3 * torch.randn(shape[0], generator=noise)
    return found
