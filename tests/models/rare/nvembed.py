"""NV-Embed as it is published, in the plainest words: transformers has none.

Lee et al. 2024 (arXiv 2405.17428), after the ports and copies of its code: texts of a batch are
padded behind, a token sees all tokens but padding, and nothing is multiplied out.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.models.random_weights import random_tensors

_PADDING = 2  # its tokenizer's </s>


@dataclass(frozen=True)
class Sizes:
    """Sizes of a small model. head: features of a head of the attention to the latents."""

    vocabulary: int
    width: int = 128
    layers: int = 2
    heads: int = 4
    key_heads: int = 2
    inner: int = 192
    latents: int = 24
    latent_heads: int = 2
    latent_head: int = 40
    eps: float = 0.05


@dataclass(frozen=True)
class Reference:
    """Reference that computes from a checkpoint's tensors."""

    tensors: dict[str, Tensor]
    sizes: Sizes

    def states(self, rows: Sequence[Sequence[int]]) -> list[Tensor]:
        """The padded states of all layers, the last ones after the latents: (B, length, D) each."""
        ids, mask = padded(rows)
        states = [self.tensors["embedding_model.embed_tokens.weight"][ids]]
        for i in range(self.sizes.layers):
            name = f"embedding_model.layers.{i}"
            x = states[-1]
            x = x + self.attention(name, self.rms(f"{name}.input_layernorm", x), mask)
            y = self.rms(f"{name}.post_attention_layernorm", x)
            gate, up = (
                self.linear(f"{name}.mlp.gate_proj", y),
                self.linear(f"{name}.mlp.up_proj", y),
            )
            states.append(x + self.linear(f"{name}.mlp.down_proj", F.silu(gate) * up))
        return [*states[:-1], self.after_latents(self.rms("embedding_model.norm", states[-1]))]

    def vectors(self, rows: Sequence[Sequence[int]], instruction: int = 0) -> Tensor:
        """The mean of all tokens but the first `instruction` ones of each text: (B, D)."""
        _, mask = padded(rows)
        mask[:, :instruction] = 0
        total = (self.states(rows)[-1] * mask[..., None]).sum(dim=1)
        return total / mask.sum(dim=1, keepdim=True)

    def attention(self, name: str, x: Tensor, mask: Tensor) -> Tensor:
        size = self.sizes.width // self.sizes.heads
        query, key, value = (
            heads_of(self.linear(f"{name}.self_attn.{part}_proj", x), size) for part in "qkv"
        )
        shared = self.sizes.heads // self.sizes.key_heads
        key, value = (part.repeat_interleave(shared, dim=1) for part in (turned(key), value))
        scores = turned(query) @ key.transpose(2, 3) / size**0.5
        weights = scores.masked_fill(mask[:, None, None] == 0, -torch.inf).softmax(dim=-1)
        return self.linear(f"{name}.self_attn.o_proj", (weights @ value).transpose(1, 2).flatten(2))

    def after_latents(self, x: Tensor) -> Tensor:
        attention, ffn = (f"latent_attention_model.cross_attend_blocks.{i}" for i in (0, 1))
        latents = self.tensors["latent_attention_model.latents"].expand(len(x), -1, -1)
        query = self.linear(f"{attention}.fn.to_q", self.norm(f"{attention}.norm", x))
        context = self.norm(f"{attention}.norm_context", latents)
        key, value = self.linear(f"{attention}.fn.to_kv", context).chunk(2, dim=-1)
        query, key, value = (heads_of(p, self.sizes.latent_head) for p in (query, key, value))
        scores = query @ key.transpose(2, 3) / self.sizes.latent_head**0.5
        mixed = (scores.softmax(dim=-1) @ value).transpose(1, 2).flatten(2)
        x = self.linear(f"{attention}.fn.to_out", mixed) + x
        up, gate = self.linear(f"{ffn}.fn.net.0", self.norm(f"{ffn}.norm", x)).chunk(2, dim=-1)
        return self.linear(f"{ffn}.fn.net.2", up * F.gelu(gate)) + x

    def linear(self, name: str, x: Tensor) -> Tensor:
        return F.linear(x, self.tensors[f"{name}.weight"], self.tensors.get(f"{name}.bias"))

    def rms(self, name: str, x: Tensor) -> Tensor:
        scale = (x.square().mean(dim=-1, keepdim=True) + self.sizes.eps).rsqrt()
        return x * scale * self.tensors[f"{name}.weight"]

    def norm(self, name: str, x: Tensor) -> Tensor:
        weight, bias = self.tensors[f"{name}.weight"], self.tensors[f"{name}.bias"]
        return F.layer_norm(x, x.shape[-1:], weight, bias)


def padded(rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Pad ids at the end; return ids and mask (1 for a token), both (B, length)."""
    longest = max(map(len, rows))
    ids = torch.tensor([[*row, *[_PADDING] * (longest - len(row))] for row in rows])
    mask = torch.tensor([[1.0] * len(row) + [0.0] * (longest - len(row)) for row in rows])
    return ids, mask


def heads_of(x: Tensor, size: int) -> Tensor:
    """Features by head: (B, length, heads * size) -> (B, heads, length, size)."""
    return x.view(*x.shape[:2], -1, size).transpose(1, 2)


def turned(x: Tensor) -> Tensor:
    """Rotate feature i and feature i + half a head by the position / 10,000^(2 i / size)."""
    half = x.shape[-1] // 2
    speeds = 10_000.0 ** (-torch.arange(half, dtype=torch.float64) / half)
    angles = torch.arange(x.shape[-2], dtype=torch.float64)[:, None] * speeds
    cos, sin = angles.cos().float(), angles.sin().float()
    first, second = x[..., :half], x[..., half:]
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


def tensors(sizes: Sizes) -> dict[str, Tensor]:
    """Random weights with the names of NV-Embed's checkpoints."""
    width, key = sizes.width, sizes.width // sizes.heads * sizes.key_heads
    shapes: dict[str, tuple[int, ...]] = {
        "embedding_model.embed_tokens.weight": (sizes.vocabulary, width),
        "embedding_model.norm.weight": (width,),
    }
    for i in range(sizes.layers):
        name = f"embedding_model.layers.{i}"
        norms = ("input_layernorm", "post_attention_layernorm")
        shapes |= {f"{name}.{norm}.weight": (width,) for norm in norms}
        rows = {"q": width, "k": key, "v": key, "o": width}
        shapes |= {f"{name}.self_attn.{p}_proj.weight": (n, width) for p, n in rows.items()}
        shapes |= {f"{name}.mlp.{p}_proj.weight": (sizes.inner, width) for p in ("gate", "up")}
        shapes[f"{name}.mlp.down_proj.weight"] = (width, sizes.inner)
    shapes |= {f"latent_attention_model.{name}": shape for name, shape in latent_shapes(sizes)}
    return random_tensors(shapes)


def latent_shapes(sizes: Sizes) -> list[tuple[str, tuple[int, ...]]]:
    """Names and shapes of the tensors after the Mistral."""
    width, features = sizes.width, sizes.latent_heads * sizes.latent_head
    attention, ffn = (f"cross_attend_blocks.{i}" for i in (0, 1))
    norms = (f"{attention}.norm", f"{attention}.norm_context", f"{ffn}.norm")
    return [
        ("latents", (sizes.latents, width)),
        *((f"{norm}.{part}", (width,)) for norm in norms for part in ("weight", "bias")),
        (f"{attention}.fn.to_q.weight", (features, width)),
        (f"{attention}.fn.to_kv.weight", (2 * features, width)),
        (f"{attention}.fn.to_out.weight", (width, features)),
        (f"{ffn}.fn.net.0.weight", (8 * width, width)),
        (f"{ffn}.fn.net.0.bias", (8 * width,)),
        (f"{ffn}.fn.net.2.weight", (width, 4 * width)),
        (f"{ffn}.fn.net.2.bias", (width,)),
    ]
