"""Attention of a decoder's tokens to themselves and to the states of an encoder, in one softmax.

T tokens of B texts, M states of the encoder, N texts of a group, H heads, Dh head size.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from embedwell_models.config.layer_spec import AttentionSpec
from embedwell_models.encoder.batch import Batch
from embedwell_models.encoder.batch_shape import BatchShape, rounded_rows
from embedwell_models.torch_backend.attention import AttentionOptions
from embedwell_models.torch_backend.layer_builder import LayerBuilder
from embedwell_models.torch_backend.linear import Linear, OutputLinear
from embedwell_models.torch_backend.norm import Norm, Sum
from embedwell_models.torch_backend.sequence_layout import PaddedGroup, SequenceLayout, padded
from embedwell_models.torch_backend.tensors import to_device


@dataclass(frozen=True)
class EncoderStates:
    """States that a decoder reads. rows: (M, D). lengths: number of states of each of B texts.

    Rows after the last text are zeros.
    """

    rows: Tensor
    lengths: Sequence[int]

    @classmethod
    def of_means(cls, states: Tensor, layout: SequenceLayout, size: int) -> "EncoderStates":
        """Take the means of `size` consecutive states of a text, and of the rest at its end."""
        lengths = np.array(layout.host_lengths)
        counts = -(-lengths // size)
        texts = np.arange(len(lengths)).repeat(counts)
        chunks = np.arange(len(texts)) - (counts.cumsum() - counts)[texts]
        rows = chunks[:, None] * size + np.arange(size)
        is_token = rows < lengths[texts, None]
        rows = np.where(is_token, rows, 0) + (lengths.cumsum() - lengths)[texts, None]
        index, shares = to_device(
            states.device,
            torch.from_numpy(rows).flatten(),
            torch.from_numpy(is_token.astype(np.int64)).flatten(),
        )
        weights = shares.view(-1, size, 1).float()
        chosen = states.index_select(0, index).float().view(-1, size, states.shape[1])
        means = (chosen * weights).sum(dim=1) / weights.sum(dim=1)
        zeros = rounded_rows(len(means)) - len(means)
        return cls(F.pad(means.to(states.dtype), (0, 0, 0, zeros)), counts.tolist())


@dataclass(frozen=True)
class MergedGroup:
    """Texts whose tokens are padded to one length P, and whose states to one length Q.

    queries: the tokens. keys: (N * (P + Q),) row that each slot reads among T tokens and M states
    after them. padding: (N, 1, 1, P + Q), see PaddedGroup.mask.
    """

    queries: PaddedGroup
    keys: Tensor
    padding: Tensor


class DecoderLayout(SequenceLayout):
    """Layout of a decoder's tokens, with the states of the encoder that each text reads."""

    def __init__(self, queries: Batch, encoder_states: EncoderStates, device: torch.device) -> None:
        """queries: token ids that the decoder reads."""
        lengths = queries.lengths.tolist()
        dtype, shape = encoder_states.rows.dtype, BatchShape.of(lengths)
        super().__init__(lengths, device, dtype, shape, ids=queries.ids)
        self.encoder_states = encoder_states

    @cached_property
    def merged_groups(self) -> list[MergedGroup]:
        """Groups of texts by both padded lengths, see SequenceLayout.groups."""
        members = defaultdict[tuple[int, int], list[int]](list)
        device, states = self._device, self.encoder_states.lengths
        for index, (tokens, count) in enumerate(zip(self.host_lengths, states, strict=True)):
            members[padded(tokens, device), padded(count, device)].append(index)
        return [self._merged_group(*lengths, texts) for lengths, texts in members.items()]

    def _merged_group(self, length: int, states: int, texts: list[int]) -> MergedGroup:
        counts = torch.tensor(self.encoder_states.lengths)
        column = torch.arange(states)
        is_state = column < counts[texts, None]
        starts = self.rows + (counts.cumsum(0) - counts)[texts, None]
        rows, slots = to_device(
            self._device,
            torch.where(is_state, starts + column, starts).flatten(),
            is_state.flatten().nonzero().flatten(),
        )
        queries = self._group(length, texts)
        mask = torch.full(rows.shape, float("-inf"), dtype=self._dtype, device=self._device)
        mask = mask.index_fill_(0, slots, 0.0).view(len(texts), 1, 1, states)
        keys = torch.cat([queries.rows.view(-1, length), rows.view(-1, states)], dim=1)
        return MergedGroup(queries, keys.flatten(), torch.cat([queries.mask, mask], dim=3))


@dataclass(frozen=True)
class MergedAttention:
    """Attention to earlier tokens, at their positions, and to all states of an encoder.

    Zhang et al. 2025 (arXiv 2512.14856). query: (T, D) -> (T, H * Dh). key_value: (T, D) ->
    (T, 2 * key heads * Dh). output: (T, H * Dh) -> (T, D). heads: numbers of query and key heads.
    """

    query: Linear
    key_value: Linear
    output: OutputLinear
    query_norm: Norm
    key_norm: Norm
    heads: tuple[int, int]
    options: AttentionOptions

    def __call__(self, x: Tensor, layout: SequenceLayout, residual: Tensor | None = None) -> Sum:
        """Apply it to packed rows: (T, D) -> (T, D)."""
        assert isinstance(layout, DecoderLayout)
        rotate = self.options.positions.rotate
        query = rotate(self.query_norm(self.query(x).view(len(x), self.heads[0], -1)), layout)
        key, value = self._key_and_value(x)
        key_of_state, value_of_state = self._key_and_value(layout.encoder_states.rows)
        keys = torch.cat([rotate(key, layout), key_of_state])
        values = torch.cat([value, value_of_state])
        return self.output(self._attend(query, keys, values, layout), residual)

    def _key_and_value(self, x: Tensor) -> tuple[Tensor, Tensor]:
        both = self.key_value(x).view(len(x), 2 * self.heads[1], -1)
        return self.key_norm(both[:, : self.heads[1]]), both[:, self.heads[1] :]

    def _attend(self, query: Tensor, keys: Tensor, values: Tensor, layout: DecoderLayout) -> Tensor:
        rows, heads, size = query.shape
        output = query.new_zeros(rows, heads * size)
        for group in layout.merged_groups:
            count, queries = group.queries.count, group.queries
            q, k, v = (
                each.index_select(0, index).view(count, -1, *each.shape[1:]).transpose(1, 2)
                for each, index in ((query, queries.rows), (keys, group.keys), (values, group.keys))
            )
            k, v = (each.repeat_interleave(heads // self.heads[1], dim=1) for each in (k, v))
            mask = group.padding + self._visible(layout, queries.length, k.shape[2])
            mixed = F.scaled_dot_product_attention(
                q, k, v, attn_mask=mask, scale=self.options.scale
            )
            flat = mixed.transpose(1, 2).reshape(-1, heads * size)
            output.index_copy_(0, queries.targets, flat.index_select(0, queries.slots))
        return output

    def _visible(self, layout: DecoderLayout, length: int, keys: int) -> Tensor:
        # (P, P + Q): 0 for a token in the window and for each state, else -inf.
        def compute(_: SequenceLayout) -> Tensor:
            like = layout.encoder_states.rows
            positions = torch.arange(length, device=like.device)
            distances = positions[:, None] - positions
            hidden = distances < 0
            if self.options.window is not None:
                hidden |= distances > self.options.window
            mask = like.new_zeros(length, keys)
            mask[:, :length].masked_fill_(hidden, float("-inf"))
            return mask

        mask: Tensor = layout.cached(("visible", self.options.window, length, keys), compute)
        return mask


def build(builder: LayerBuilder, name: str, spec: AttentionSpec) -> MergedAttention:
    """Build the attention of a layer. name: prefix of the names of its tensors."""
    return MergedAttention(
        query=builder.linear(name, "query"),
        key_value=builder.linear(name, "key_value"),
        output=builder.last(builder.linear(name, "output")),
        query_norm=builder.norm(f"{name}.query_norm"),
        key_norm=builder.norm(f"{name}.key_norm"),
        heads=(spec.heads, spec.kv_heads),
        options=builder.options(name, spec),
    )
