"""MobileBERT (Sun et al. 2020, arXiv 2004.02984): narrow layers between wide states.

T tokens, D width of the states, N width inside a layer, H heads.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor

from embedwell_models.classic.own_layers_encoder import OwnLayersEncoder
from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.encoder.batch import Batch
from embedwell_models.model_description import ModelDescription
from embedwell_models.torch_backend.attention import AttentionOptions, padded_attention
from embedwell_models.torch_backend.linear import Linear, LinearFactory
from embedwell_models.torch_backend.norm import Norm
from embedwell_models.torch_backend.position_hooks import PositionHooks
from embedwell_models.torch_backend.sequence_layout import SequenceLayout
from embedwell_models.vectors import Floats


@dataclass(frozen=True)
class ElementwiseNorm:
    """Scale (D,) and shift (D,) of features in place of a norm: the paper's NoNorm."""

    weight: Tensor
    bias: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        return x * self.weight + self.bias


@dataclass(frozen=True)
class NormedLinear:
    """Linear layer followed by a norm of its sum with a residual."""

    linear: Linear
    norm: Norm

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """Apply it to packed rows: (T, in) -> (T, out)."""
        return self.norm(self.linear(x, residual=residual))


@dataclass(frozen=True)
class MobileBertLayer:
    """Layer of attention and feed-forward networks in N dimensions.

    narrow, narrow_attention: (T, D) -> (T, N), input of the residual path, and of queries and keys.
    qk: (T, N) -> (T, 2 N). value: (T, D) -> (T, N). ffns: pairs of up and down. widen: (T, N) ->
    (T, D), whose result is added to the layer's input.
    """

    narrow: NormedLinear
    narrow_attention: NormedLinear
    qk: Linear
    value: Linear
    output: NormedLinear
    ffns: Sequence[tuple[Linear, NormedLinear]]
    widen: NormedLinear
    heads: int
    options: AttentionOptions

    def __call__(self, x: Tensor, layout: SequenceLayout) -> Tensor:
        """Apply it to packed rows: (T, D) -> (T, D)."""
        inner = self.output(self._attend(x, layout), residual=self.narrow(x))
        for up, down in self.ffns:
            inner = down(up(inner), residual=inner)
        return self.widen(inner, residual=x)

    def _attend(self, x: Tensor, layout: SequenceLayout) -> Tensor:
        query, key = self.qk(self.narrow_attention(x)).chunk(2, dim=1)
        query, key, value = (
            part.reshape(len(x), self.heads, -1) for part in (query, key, self.value(x))
        )
        return padded_attention(query, key, value, layout, self.options)


class MobileBertEncoder(OwnLayersEncoder):
    """Encoder whose token vectors combine the narrow rows of the token and its two neighbours."""

    def __init__(
        self,
        config: EncoderConfig,
        weights: Mapping[str, Tensor],
        linear: LinearFactory,
        device: torch.device,
    ) -> None:
        """linear: of rows that do not depend on each other, on a CPU."""
        super().__init__(config, device)
        build = _Builder(config, weights, linear, device)
        self._table, self._positions, self._segments = (
            weights[f"{name}_table"].to(device) for name in ("narrow", "position", "segment")
        )
        self._trigram, self._norm = build.linear("trigram"), build.norm("norm")
        self._layers = [build.layer(f"layers.{i}") for i in range(config.num_layers)]

    @classmethod
    def build(
        cls,
        description: ModelDescription,
        tensors: Mapping[str, Tensor],
        linear: LinearFactory,
        device: torch.device,
    ) -> Self:
        """Build the encoder from its weights, with the options in the folder's config.json."""
        return cls(description.spec.config, tensors, linear, device)

    def part(self, name: str, batch: Batch) -> Floats:
        """Return one of the summed embeddings; a token's also reads both neighbours: (T, D)."""
        part: Floats = self._parts(batch)[name]().cpu().numpy()
        return part

    def hidden(self, batch: Batch, num_layers: int) -> Tensor:
        """Compute the states after the first `num_layers` layers: (T, D)."""
        keys = None if batch.key_counts is None else batch.key_counts.tolist()
        layout = SequenceLayout(batch.lengths.tolist(), self.device, key_counts=keys)
        token, position, segment = (part() for part in self._parts(batch).values())
        x = self._norm(token + position + segment)
        for layer in self._layers[:num_layers]:
            x = layer(x, layout)
        return x

    def _parts(self, batch: Batch) -> Mapping[str, Callable[[], Tensor]]:
        positions = torch.from_numpy(batch.positions).to(self.device)
        return {
            "token": lambda: self._trigrams(batch, positions),
            "position": lambda: self._positions[positions],
            "segment": lambda: self._segments[0].expand(len(positions), -1),
        }

    def _trigrams(self, batch: Batch, positions: Tensor) -> Tensor:
        rows = self._table[torch.from_numpy(batch.ids).to(self.device)]
        lengths = torch.from_numpy(batch.lengths).to(self.device)
        is_last = positions == (lengths - 1).repeat_interleave(lengths)
        after = F.pad(rows[1:], (0, 0, 0, 1)).masked_fill(is_last[:, None], 0.0)
        before = F.pad(rows[:-1], (0, 0, 1, 0)).masked_fill((positions == 0)[:, None], 0.0)
        return self._trigram(torch.cat([after, rows, before], dim=1))


@dataclass(frozen=True)
class _Builder:
    config: EncoderConfig
    weights: Mapping[str, Tensor]
    factory: LinearFactory
    device: torch.device

    def layer(self, name: str) -> MobileBertLayer:
        networks = sum(each.startswith(f"{name}.up_") for each in self.weights) // 2
        return MobileBertLayer(
            narrow=self.normed(name, "narrow", "narrow_norm"),
            narrow_attention=self.normed(name, "narrow_attention", "narrow_attention_norm"),
            qk=self.linear(f"{name}.query", f"{name}.key"),
            value=self.linear(f"{name}.value"),
            output=self.normed(name, "output", "attention_norm"),
            ffns=[
                (
                    self.linear(f"{name}.up_{i}", activation=self.config.feed_forward.activation),
                    self.normed(name, f"down_{i}", f"ffn_norm_{i}"),
                )
                for i in range(networks)
            ],
            widen=self.normed(name, "widen", "widen_norm"),
            heads=self.config.attention.heads,
            options=AttentionOptions(PositionHooks(), self.config.attention.scale),
        )

    def linear(self, *names: str, activation: str = "none") -> Linear:
        weight, bias = (
            torch.cat([self.weights[f"{name}.{part}"] for name in names])
            for part in ("weight", "bias")
        )
        return self.factory(weight, bias, activation, name=names[0])

    def normed(self, layer: str, linear: str, norm: str) -> NormedLinear:
        return NormedLinear(self.linear(f"{layer}.{linear}"), self.norm(f"{layer}.{norm}"))

    def norm(self, name: str) -> Norm:
        weight, bias = (
            self.weights[f"{name}.{part}"].to(self.device) for part in ("weight", "bias")
        )
        return ElementwiseNorm(weight, bias)
