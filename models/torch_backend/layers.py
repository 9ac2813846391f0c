"""The layers of an encoder on torch alone, over packed tensors, on any device.

T tokens, D hidden size, H heads, Dh head size, I the width of the feed-forward network.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from models.encoder.sequence_layout import Packing
from models.torch_backend.attention import Attend, Rules
from models.torch_backend.linear import Linear
from models.torch_backend.norm import Norm


@dataclass(frozen=True)
class Attention:
    """Multi-head attention, with as many heads of keys as of queries or fewer (arXiv 2305.13245).

    qkv: (T, D) -> (T, (H + 2 * heads of keys) * Dh). output: (T, H * Dh) -> (T, D).
    """

    qkv: Linear
    output: Linear
    query_norm: Norm
    key_norm: Norm
    heads: tuple[int, int, int]
    rules: Rules
    attend: Attend

    def __call__(self, x: Tensor, packing: Packing, residual: Tensor | None = None) -> Tensor:
        """(T, D) -> (T, D)."""
        qkv = self.qkv(x).view(len(x), sum(self.heads), -1)
        query, key, value = torch.split(qkv, list(self.heads), dim=1)
        query, key = self.query_norm(query), self.key_norm(key)
        query, key = self.rules.positions.rotate(query, key, packing)
        return self.output(self.attend(query, key, value, packing, self.rules), residual=residual)


@dataclass(frozen=True)
class FeedForward:
    """Two products with an activation between them, or three (GLU, Shazeer 2020, 2002.05202)."""

    up: Linear
    down: Linear

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """(T, D) -> (T, D)."""
        return self.down(self.up(x), residual=residual)


@dataclass(frozen=True)
class Layer:
    """Attention and feed-forward network, each added to its input and then normalised."""

    attention: Attention
    attention_norm: Norm
    ffn: FeedForward
    ffn_norm: Norm
    attention_exit: Norm
    ffn_exit: Norm

    def __call__(self, x: Tensor, packing: Packing) -> Tensor:
        """(T, D) -> (T, D)."""
        x = self.attention_norm(self.attention(x, packing, residual=x))
        return self.ffn_norm(self.ffn(x, residual=x))


class TwiceLayer(Layer):
    """What the attention gives is normalised with its input, and their sum once more.

    Jina's code for programming languages.
    """

    def __call__(self, x: Tensor, packing: Packing) -> Tensor:
        x = self.attention_norm(x + self.attention_exit(self.attention(x, packing, residual=x)))
        return self.ffn_norm(self.ffn(x, residual=x))


class PreLayer(Layer):
    """Each part reads its input normalised (Xiong et al. 2020, arXiv 2002.04745)."""

    def __call__(self, x: Tensor, packing: Packing) -> Tensor:
        x = self.attention(self.attention_norm(x), packing, residual=x)
        return self.ffn(self.ffn_norm(x), residual=x)


class ParallelLayer(Layer):
    """Both parts read the layer's input (GPT-NeoX; Black et al. 2022, arXiv 2204.06745)."""

    def __call__(self, x: Tensor, packing: Packing) -> Tensor:
        mixed = self.attention(self.attention_norm(x), packing, residual=x)
        return self.ffn(self.ffn_norm(x), residual=mixed)


class SharedLayer(Layer):
    """Both parts read the layer's input through one norm (GPT-J)."""

    def __call__(self, x: Tensor, packing: Packing) -> Tensor:
        read = self.attention_norm(x)
        return self.ffn(read, residual=self.attention(read, packing, residual=x))


class SandwichLayer(Layer):
    """Norms before and after each part (Ding et al. 2021, arXiv 2105.13290; Gemma 2)."""

    def __call__(self, x: Tensor, packing: Packing) -> Tensor:
        x = x + self.attention_exit(self.attention(self.attention_norm(x), packing))
        return x + self.ffn_exit(self.ffn(self.ffn_norm(x)))


ARRANGEMENTS: Mapping[str, type[Layer]] = {
    "post": Layer,
    "twice": TwiceLayer,
    "pre": PreLayer,
    "parallel": ParallelLayer,
    "shared": SharedLayer,
    "sandwich": SandwichLayer,
}
