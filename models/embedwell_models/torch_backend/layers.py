"""Layers of an encoder on torch, over packed sequences on any device.

T tokens, D hidden size, H heads, Dh head size, I the width of the feed-forward network, E experts,
P width of an input gate, L layers.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.torch_backend.attention import (
    AttentionFunction,
    AttentionOptions,
    attend_from_first,
)
from embedwell_models.torch_backend.linear import Linear, LinearFactory, OutputLinear
from embedwell_models.torch_backend.norm import (
    HeadNorms,
    Norm,
    Sum,
    SumAndNorm,
    build_norm,
    identity,
)
from embedwell_models.torch_backend.sequence_layout import SequenceLayout
from embedwell_models.torch_backend.tensors import Tensors


class TokenMixer(Protocol):
    """Part of a layer that mixes the tokens of each text, such as its attention."""

    def __call__(self, x: Tensor, layout: SequenceLayout, residual: Tensor | None = None) -> Sum:
        """Apply it to packed rows: (T, D) -> (T, D)."""


@dataclass(frozen=True)
class Attention:
    """Multi-head attention, or grouped-query attention with fewer key heads (arXiv 2305.13245).

    qkv: (T, D) -> (T, (H + 2 * key heads) * Dh). output: (T, H * Dh) -> (T, D). heads: numbers of
    query, key and value heads. head_norms: those of queries and keys, if their rotation computes
    them. mixed_norm: norm of what `output` reads. first_qkv: as `qkv`, for
    what the first token of a text reads; None if it reads what the others read. gate: (T, D) ->
    (T, H * Dh), whose sigmoid multiplies what `output` reads; None without a gate.
    """

    qkv: Linear
    output: OutputLinear
    query_norm: Norm
    key_norm: Norm
    head_norms: HeadNorms | None
    value_norm: Norm
    heads: tuple[int, int, int]
    options: AttentionOptions
    attend: AttentionFunction
    mixed_norm: Norm = identity
    first_qkv: Linear | None = None
    gate: Linear | None = None

    def __call__(self, x: Tensor, layout: SequenceLayout, residual: Tensor | None = None) -> Sum:
        """Apply it to packed rows: (T, D) -> (T, D)."""
        qkv = self.qkv(x).view(len(x), sum(self.heads), -1)
        query, key = self._query_and_key(qkv, layout)
        value = self.value_norm(qkv[:, -self.heads[2] :])
        mixed = self.attend(query, key, value, layout, self.options)
        if self.first_qkv is not None:
            heads = self.first_qkv(x).view(qkv.shape).chunk(3, dim=1)
            attend_from_first(mixed, heads, layout, self.options.scale)
        mixed = self.mixed_norm(mixed)
        if self.gate is not None:
            mixed = mixed * torch.sigmoid(self.gate(x))
        return self.output(mixed, residual)

    def _query_and_key(self, qkv: Tensor, layout: SequenceLayout) -> Sequence[Tensor]:
        rotate, sizes = self.options.positions.rotate, list(self.heads[:2])
        both = qkv[:, : sum(sizes)]
        if self.head_norms or self.query_norm is self.key_norm is identity:
            return torch.split(rotate(both, layout, self.head_norms), sizes, dim=1)
        query, key = torch.split(both, sizes, dim=1)
        return rotate(self.query_norm(query), layout), rotate(self.key_norm(key), layout)


@dataclass(frozen=True)
class FeedForward:
    """Feed-forward network; `up` may be gated (GLU, Shazeer 2020, arXiv 2002.05202).

    inner_norm: norm of the features that `down` reads: (T, I) -> (T, I).
    """

    up: Linear
    down: OutputLinear
    inner_norm: Norm = identity

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Sum:
        """Apply it to packed rows: (T, D) -> (T, D)."""
        return self.down(self.inner_norm(self.up(x)), residual)


@dataclass(frozen=True)
class AdaptedFeedForward:
    """Feed-forward network, norm and adapter (X-MOD; Pfeiffer et al. 2022, arXiv 2205.06266)."""

    network: FeedForward
    norm: Norm
    adapter: FeedForward

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Sum:
        """Apply it to packed rows: (T, D) -> (T, D)."""
        normed = self.norm(self.network(x, residual).evaluate())
        return self.adapter(normed, residual=normed)


@dataclass(frozen=True)
class MixtureOfExperts:
    """Mixture of E feed-forward experts; each token uses a few experts.

    Shazeer et al. 2017 (arXiv 1701.06538). As in Nomic's model (arXiv 2502.07972), the shares of
    the chosen experts do not add up to 1. router: (T, D) -> (T, E). bias: (D,), added to the sum of
    the experts.
    """

    router: Linear
    experts: Sequence[FeedForward]
    bias: Tensor
    top: int

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Sum:
        """Apply it to packed rows: (T, D) -> (T, D)."""
        shares, chosen = self.router(x).float().softmax(dim=-1).topk(self.top, dim=-1)
        total = torch.zeros_like(x)
        for index, expert in enumerate(self.experts):
            rows, ranks = (chosen == index).nonzero(as_tuple=True)
            if len(rows):
                total[rows] += expert(x[rows]).branch * shares[rows, ranks, None].to(x.dtype)
        return Sum(total + self.bias, residual)


@dataclass(frozen=True)
class Layer(ABC):
    """Layer of attention (or another mixer of tokens), feed-forward network and norms.

    Subclasses arrange these parts. A norm that the model lacks is `identity`. A sum of hidden
    states and a branch goes to the norm that follows, maybe that of the next layer.
    """

    attention: TokenMixer
    attention_norm: Norm
    ffn: FeedForward | AdaptedFeedForward | MixtureOfExperts
    ffn_norm: Norm
    attention_output_norm: Norm
    ffn_output_norm: Norm
    sum_and_norm: SumAndNorm

    @abstractmethod
    def __call__(self, states: Sum, layout: SequenceLayout) -> Sum:
        """Apply it to packed rows: (T, D) -> (T, D)."""

    def norm_of(self, parts: Sum, norm: Norm) -> Tensor:
        """Return the norm of a sum that nothing else reads: (T, D)."""
        return self.sum_and_norm(parts, norm, keeps_sum=False)[1]


class PostNormLayer(Layer):
    """Post-norm layer: each part is added to its input, then the sum is normalised."""

    def __call__(self, states: Sum, layout: SequenceLayout) -> Sum:
        x = states.evaluate()
        x = self.norm_of(self.attention(x, layout, residual=x), self.attention_norm)
        return Sum(self.norm_of(self.ffn(x, residual=x), self.ffn_norm))


class DoublePostNormLayer(Layer):
    """Post-norm layer with a second sum and norm after the attention (JinaBERT for code)."""

    def __call__(self, states: Sum, layout: SequenceLayout) -> Sum:
        x = states.evaluate()
        mixed = self.attention(x, layout, residual=x)
        normed = self.norm_of(mixed, self.attention_output_norm)
        x = self.norm_of(Sum(normed, x), self.attention_norm)
        return Sum(self.norm_of(self.ffn(x, residual=x), self.ffn_norm))


class PreNormLayer(Layer):
    """Pre-norm layer: parts read their normalised input (Xiong et al. 2020, arXiv 2002.04745)."""

    def __call__(self, states: Sum, layout: SequenceLayout) -> Sum:
        x, normed = self.sum_and_norm(states, self.attention_norm)
        mixed = self.attention(normed, layout, residual=x)
        x, normed = self.sum_and_norm(mixed, self.ffn_norm)
        return self.ffn(normed, residual=x)


class ParallelLayer(Layer):
    """Layer whose parts both read its input (GPT-NeoX; Black et al. 2022, arXiv 2204.06745)."""

    def __call__(self, states: Sum, layout: SequenceLayout) -> Sum:
        x, normed = self.sum_and_norm(states, self.attention_norm)
        mixed = self.attention(normed, layout, residual=x)
        return self.ffn(self.ffn_norm(x), residual=mixed.evaluate())


class ParallelSharedNormLayer(Layer):
    """Layer whose parts both read its input through one norm (GPT-J)."""

    def __call__(self, states: Sum, layout: SequenceLayout) -> Sum:
        x, normed = self.sum_and_norm(states, self.attention_norm)
        mixed = self.attention(normed, layout, residual=x)
        return self.ffn(normed, residual=mixed.evaluate())


class SandwichNormLayer(Layer):
    """Layer with norms before and after each part (Ding et al. 2021, arXiv 2105.13290; Gemma 2)."""

    def __call__(self, states: Sum, layout: SequenceLayout) -> Sum:
        x, normed = self.sum_and_norm(states, self.attention_norm)
        mixed = replace(
            self.attention(normed, layout), residual=x, branch_norm=self.attention_output_norm
        )
        x, normed = self.sum_and_norm(mixed, self.ffn_norm)
        return replace(self.ffn(normed), residual=x, branch_norm=self.ffn_output_norm)


LAYER_CLASSES: Mapping[str, type[Layer]] = {  # by EncoderConfig.arrangement
    "post": PostNormLayer,
    "double_post": DoublePostNormLayer,
    "pre": PreNormLayer,
    "parallel": ParallelLayer,
    "parallel_one_norm": ParallelSharedNormLayer,
    "sandwich": SandwichNormLayer,
}


@dataclass(frozen=True)
class InputGate:
    """Third part of a layer, gated by the input vectors of the tokens (EmbeddingGemma 2).

    It is a bottleneck of the states times features of the token ("per-layer embeddings"). features:
    of token vectors (T, D) -> (T, P). down: (T, D) -> (T, P). up: (T, P) -> (T, D). scale: (1,),
    factor of the layer's result.
    """

    features: Linear
    features_norm: Norm
    down: Linear
    up: Linear
    norm: Norm
    scale: Tensor

    def __call__(self, x: Tensor, tokens: Tensor) -> Tensor:
        """Apply the gate to states x (T, D), with the input vectors of the tokens (T, D)."""
        gated = self.down(x) * self.features_norm(self.features(tokens))
        return (x + self.norm(self.up(gated))) * self.scale


def input_gates(
    config: EncoderConfig, weights: Tensors, linear: LinearFactory, device: torch.device
) -> list[InputGate]:
    """Build the gate of each layer; return an empty list for a model without gates."""
    if "gates.weight" not in weights:
        return []

    def norm(name: str) -> Norm:
        return build_norm(config, weights, name, device, linear.dtype)

    def project(name: str, weight: Tensor, activation: str = "none") -> Linear:
        return linear(weight, weight.new_zeros(len(weight)), activation, name=name)

    return [
        InputGate(
            features=project(f"{name}.gate_features", _gate_features(config, weights, index)),
            features_norm=norm("gates_norm"),
            down=project(
                f"{name}.gate_down",
                weights[f"{name}.gate_down.weight"],
                config.feed_forward.activation,
            ),
            up=project(f"{name}.gate_up", weights[f"{name}.gate_up.weight"]),
            norm=norm(f"{name}.gate_norm"),
            scale=weights[f"{name}.scale"].to(device, linear.dtype),
        )
        for index, name in enumerate(f"layers.{index}" for index in range(config.num_layers))
    ]


def _gate_features(config: EncoderConfig, weights: Tensors, layer: int) -> Tensor:
    """Return the feature matrix (P, D) of a layer, from the matrix (L * P, D) of all layers."""
    scale: float = config.hidden_size**-0.5
    return weights["gates.weight"].tensor_split(config.num_layers)[layer] * scale
