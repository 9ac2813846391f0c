"""EmbeddingGemma 2: a Gemma in which tokens see both sides, gated by its input in each layer.

T tokens, D width of the states, P width of a gate, H heads, Dh head size, which depends on the
layer.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from models.checkpoint.weights import Weights
from models.config.encoder_config import EncoderConfig
from models.encoder.batch import Batch
from models.encoder.position_tensors import layer_position_hooks
from models.encoder.sequence_layout import BatchShape, SequenceLayout
from models.torch_backend.attention import AttentionOptions, padded_attention
from models.torch_backend.layers import FeedForward
from models.torch_backend.linear import Linear, LinearFactory, WeightAndBias
from models.torch_backend.norm import Norm, RMSNorm
from models.torch_backend.state_encoder import StateEncoder
from models.vectors import Floats

_NORMS = ("attention_norm", "attention_output_norm", "ffn_norm", "ffn_output_norm", "gate_norm")


@dataclass(frozen=True)
class NormedValueAttention:
    """Attention whose queries, keys and values are normalised, the values without a weight.

    qkv: (T, D) -> (T, (H + 2 * key heads) * Dh). heads: numbers of query, key and value heads.
    """

    qkv: Linear
    output: Linear
    query_norm: Norm
    key_norm: Norm
    eps: float
    heads: tuple[int, int, int]
    options: AttentionOptions

    def __call__(self, x: Tensor, layout: SequenceLayout) -> Tensor:
        """(T, D) -> (T, D)."""
        qkv = self.qkv(x).view(len(x), sum(self.heads), -1)
        query, key, value = torch.split(qkv, list(self.heads), dim=1)
        query, key = self.query_norm(query), self.key_norm(key)
        query, key = self.options.positions.rotate(query, key, layout)
        value = F.rms_norm(value, value.shape[-1:], eps=self.eps)
        return self.output(padded_attention(query, key, value, layout, self.options))


@dataclass(frozen=True)
class InputGate:
    """A bottleneck of the states, times features of the token itself ("per-layer embeddings").

    features: of the token's vector (T, D) -> (T, P). down: (T, D) -> (T, P). up: (T, P) -> (T, D).
    """

    features: Linear
    features_norm: Norm
    down: Linear
    up: Linear

    def __call__(self, x: Tensor, tokens: Tensor) -> Tensor:
        """(T, D), and the token vectors (T, D) -> (T, D)."""
        return self.up(self.down(x) * self.features_norm(self.features(tokens)))


@dataclass(frozen=True)
class EmbeddingGemma2Layer:
    """Attention, a gated feed-forward network and a gate by the input, each between norms.

    scale: (1,), multiplies the states in the end.
    """

    attention: NormedValueAttention
    ffn: FeedForward
    gate: InputGate
    norms: Mapping[str, Norm]
    scale: Tensor

    def __call__(self, x: Tensor, tokens: Tensor, layout: SequenceLayout) -> Tensor:
        """(T, D), and the token vectors (T, D) -> (T, D)."""
        norms = self.norms
        attended = self.attention(norms["attention_norm"](x), layout)
        x = x + norms["attention_output_norm"](attended)
        x = x + norms["ffn_output_norm"](self.ffn(norms["ffn_norm"](x)))
        return (x + norms["gate_norm"](self.gate(x, tokens))) * self.scale


class EmbeddingGemma2Encoder(StateEncoder):
    """A table of token vectors, the layers, and a norm after the last one."""

    def __init__(
        self,
        config: EncoderConfig,
        placeholders: Mapping[int, int],
        weights: Mapping[str, Tensor],
        linear: LinearFactory,
        device: torch.device,
    ) -> None:
        """placeholders: ids that have the vector of another id.

        linear: of rows that do not depend on each other, on a CPU.
        """
        super().__init__(config, device)
        build = _Builder(config, dict(weights), linear, device)
        self._placeholders = placeholders
        self._table, self._norm = weights["token_table"].to(device), build.norm("final_norm")
        self._layers = [build.layer(index) for index in range(config.num_layers)]

    def part(self, name: str, batch: Batch) -> Floats:
        """Return the vectors of the tokens: (T, D)."""
        return self.states(batch, 0)

    def hidden(self, batch: Batch, num_layers: int) -> Tensor:
        """Compute the states after the first `num_layers` layers, normed after the last: (T, D)."""
        lengths = batch.lengths.tolist()
        shape = BatchShape(sum(lengths), len(lengths), max(lengths, default=0))
        keys = None if batch.key_counts is None else batch.key_counts.tolist()
        layout = SequenceLayout(lengths, self.device, shape=shape, key_counts=keys)
        x = tokens = self._tokens(batch)
        for layer in self._layers[:num_layers]:
            x = layer(x, tokens, layout)
        return self._norm(x) if num_layers == len(self._layers) else x

    def _tokens(self, batch: Batch) -> Tensor:
        ids = batch.ids
        for placeholder, id in self._placeholders.items():
            ids = np.where(ids == placeholder, id, ids)
        return self._table[torch.from_numpy(ids).to(self.device)] * self.config.token_scale


@dataclass(frozen=True)
class _Builder:
    config: EncoderConfig
    weights: Weights
    factory: LinearFactory
    device: torch.device

    def layer(self, index: int) -> EmbeddingGemma2Layer:
        name = f"layers.{index}"
        gate, up = (self._parts(f"{name}.{part}") for part in ("gate", "up"))
        activation = self.config.activation
        return EmbeddingGemma2Layer(
            attention=self._attention(index),
            ffn=FeedForward(
                self.factory.gated(gate, up, activation, name=f"{name}.gate"),
                self._linear(f"{name}.down"),
            ),
            gate=self._gate(index),
            norms={norm: self.norm(f"{name}.{norm}") for norm in _NORMS},
            scale=self.weights[f"{name}.scale"].to(self.device),
        )

    def norm(self, name: str) -> Norm:
        return RMSNorm(self.weights[f"{name}.weight"].to(self.device), self.config.norm_eps)

    def _attention(self, index: int) -> NormedValueAttention:
        name, config = f"layers.{index}", self.config
        norm = self.weights[f"{name}.query_norm.weight"]
        kv_heads = len(self.weights[f"{name}.key.weight"]) // len(norm)
        hooks = layer_position_hooks(config, self.weights, name, config.scheme(index), norm)
        return NormedValueAttention(
            qkv=self._linear(*(f"{name}.{part}" for part in ("query", "key", "value"))),
            output=self._linear(f"{name}.output"),
            query_norm=self.norm(f"{name}.query_norm"),
            key_norm=self.norm(f"{name}.key_norm"),
            eps=config.norm_eps,
            heads=(config.num_heads, kv_heads, kv_heads),
            options=AttentionOptions(hooks, config.scale, window=config.windows[index]),
        )

    def _gate(self, index: int) -> InputGate:
        # A layer's features are its rows of one matrix, times D^-0.5.
        name, config = f"layers.{index}", self.config
        rows = self.weights["gates.weight"].tensor_split(config.num_layers)[index]
        features = rows * config.hidden_size**-0.5, rows.new_zeros(len(rows))
        return InputGate(
            features=self.factory(*features, name=f"{name}.gates"),
            features_norm=self.norm("gates_norm"),
            down=self._linear(f"{name}.gate_down", activation=config.activation),
            up=self._linear(f"{name}.gate_up"),
        )

    def _linear(self, *names: str, activation: str = "none") -> Linear:
        parts = zip(*(self._parts(name) for name in names), strict=True)
        weight, bias = (torch.cat(each) for each in parts)
        return self.factory(weight, bias, activation, name=names[0])

    def _parts(self, name: str) -> WeightAndBias:
        weight = self.weights[f"{name}.weight"]
        return weight, self.weights.get(f"{name}.bias", weight.new_zeros(len(weight)))
