"""MobileBERT (Sun et al. 2020, arXiv 2004.02984): narrow layers between wide states.

T tokens, D width of the states, N width inside a layer, H heads.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from embedwell_classic.encoders.custom_layers import CustomLayersEncoder, LayerBuilder
from embedwell_models.encoder.batch import Batch
from embedwell_models.torch_backend.attention import AttentionOptions, padded_attention
from embedwell_models.torch_backend.linear import Linear
from embedwell_models.torch_backend.norm import Norm
from embedwell_models.torch_backend.position_hooks import PositionHooks
from embedwell_models.torch_backend.sequence_layout import SequenceLayout


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


class MobileBertEncoder(CustomLayersEncoder):
    """Encoder whose token vectors combine the narrow rows of the token and its two neighbours."""

    def __init__(self, build: LayerBuilder) -> None:
        super().__init__(build)
        self._table, self._positions, self._segments = (
            build.tensor(f"{name}_table") for name in ("narrow", "position", "segment")
        )
        self._trigram, self._norm = build.linear("trigram"), _norm(build, "norm")
        self._layers = [_layer(build, f"layers.{i}") for i in range(self.config.num_layers)]

    def summand(self, name: str, batch: Batch) -> Tensor:
        """Return one of the summed embeddings; a token's also reads both neighbours: (T, D)."""
        return self._parts(batch)[name]()

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


def _layer(build: LayerBuilder, name: str) -> MobileBertLayer:
    networks = sum(each.startswith(f"{name}.up_") for each in build.weights) // 2
    activation = build.config.feed_forward.activation

    def normed(linear: str, norm: str) -> NormedLinear:
        return NormedLinear(build.linear(f"{name}.{linear}"), _norm(build, f"{name}.{norm}"))

    return MobileBertLayer(
        narrow=normed("narrow", "narrow_norm"),
        narrow_attention=normed("narrow_attention", "narrow_attention_norm"),
        qk=build.linear(f"{name}.query", f"{name}.key"),
        value=build.linear(f"{name}.value"),
        output=normed("output", "attention_norm"),
        ffns=[
            (
                build.linear(f"{name}.up_{i}", activation=activation),
                normed(f"down_{i}", f"ffn_norm_{i}"),
            )
            for i in range(networks)
        ],
        widen=normed("widen", "widen_norm"),
        heads=build.config.attention.heads,
        options=AttentionOptions(PositionHooks(), build.config.attention.scale),
    )


def _norm(build: LayerBuilder, name: str) -> Norm:
    return ElementwiseNorm(build.tensor(f"{name}.weight"), build.tensor(f"{name}.bias"))
