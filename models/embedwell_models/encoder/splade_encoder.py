"""Encoder of sparse vectors over the vocabulary (SPLADE: Formal et al. 2021, arXiv 2109.10086).

B sequences, T tokens, D hidden size, V vocabulary.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np

from embedwell_models.encoder.batch import Batch
from embedwell_models.encoder.encoder import Encoder
from embedwell_models.encoder.encoders_with_heads import EncoderWithHead
from embedwell_models.outputs.text_outputs import SparseVector
from embedwell_models.vectors import Floats

_MAX_NUMBERS = 1 << 24  # weights in memory at once, zeros included


class SpladeHead(Protocol):
    """Head of a masked language model whose logits are pooled over the tokens of a text.

    The weights of a text with states that are not finite are NaN.
    """

    @property
    def vocab_size(self) -> int: ...

    def __call__(self, states: Floats, lengths: Sequence[int]) -> Floats:
        """Pool the states of B sequences: (T, D) -> (B, V)."""
        ...


class SpladeEncoder(EncoderWithHead):
    """Encoder whose pooled vectors are the weights of the vocabulary."""

    def __init__(self, encoder: Encoder, head: SpladeHead, num_layers: int) -> None:
        """num_layers: the number of layers of the inner encoder."""
        super().__init__(encoder, num_layers)
        self._head = head

    def vectors(self, batch: Batch, poolings: Sequence[str]) -> Floats:
        """Return the weights of the vocabulary: (B, V). poolings: only splade."""
        return np.concatenate(list(self._groups(batch)))

    def sparse(self, batch: Batch) -> list[SparseVector]:
        """Return the non-zero weights of the vocabulary for each of B sequences."""
        return [SparseVector.of(row) for weights in self._groups(batch) for row in weights]

    def _groups(self, batch: Batch) -> Iterator[Floats]:
        return map(self._weights, self._parts(batch))

    def _parts(self, batch: Batch) -> Iterator[Batch]:
        # Few weights are in memory at once, although a batch may have many short sequences.
        return batch.parts(max(1, _MAX_NUMBERS // self._head.vocab_size))

    def _weights(self, batch: Batch) -> Floats:
        # (B, V)
        return self._head(self._encoder.states(batch, self._num_layers), batch.lengths.tolist())
