"""SPLADE: sparse vectors over the vocabulary (Formal et al. 2021, arXiv 2109.10086).

B sequences, T tokens, D hidden size, V vocabulary.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from embedwell_models.encoder.batch import Batch
from embedwell_models.encoder.encoder import Encoder, EncoderWithHead
from embedwell_models.encoder.masked_lm import MaskedLMWeights, load_masked_lm_weights
from embedwell_models.model_files.sparse import Splade
from embedwell_models.outputs.text_outputs import SparseVector
from embedwell_models.torch_backend.linear import LinearFactory
from embedwell_models.torch_backend.norm import LayerNorm
from embedwell_models.vectors import Floats

_ROWS = 64  # tokens whose logits are in memory at once if they are summed
_MAX_NUMBERS = 1 << 24  # weights in memory at once, zeros included


class SpladeHead:
    """Head of a masked language model whose logits are pooled over the tokens of a text."""

    def __init__(
        self,
        splade: Splade,
        weights: MaskedLMWeights,
        linear: LinearFactory,
        device: torch.device,
    ) -> None:
        """linear: builds the linear layers in a precision."""
        self.vocab_size = len(weights.output[1])
        self._splade, self._dtype, self._device = splade, linear.dtype, device
        self._dense = linear(*weights.dense, weights.activation, name="masked_lm.dense")
        weight, bias = (part.to(device, linear.dtype) for part in weights.norm)
        self._norm = LayerNorm(weight, bias, weights.eps)
        self._logits = self._maximum = None
        if splade.pooling == "max":
            self._maximum = linear.row_maximum(*weights.output, name="masked_lm.output")
        else:
            self._logits = linear(*weights.output, name="masked_lm.output")

    @classmethod
    def builder(
        cls, splade: Splade, folder: Path, token_table: Tensor, hidden_size: int
    ) -> Callable[[LinearFactory], "SpladeHead"]:
        """Read the head of an encoder's folder; return a function that builds it in a precision.

        token_table: the output matrix of a checkpoint that has none of its own. hidden_size: D.

        Raises ModelError for a tensor that is missing or of a wrong shape.
        """
        weights = load_masked_lm_weights(folder, splade.head, token_table, hidden_size)
        return lambda linear: cls(splade, weights, linear, token_table.device)

    def __call__(self, states: Floats, lengths: Sequence[int]) -> Floats:
        """Pool the states of B sequences: (T, D) -> (B, V)."""
        pooled = self.pool(torch.from_numpy(states).to(self._device, self._dtype), lengths)
        weights: Floats = pooled.cpu().numpy()
        return weights

    def pool(self, states: Tensor, lengths: Sequence[int]) -> Tensor:
        """Pool the states of B sequences on their device: (T, D) -> (B, V)."""
        x = self._norm(self._dense(states))
        texts = torch.split(x, list(lengths))
        if self._maximum is not None:  # log(1 + x) grows with x, so the maximum comes first
            pooled = self._log(self._maximum(x, lengths))
        else:
            pooled = torch.stack([self._sum(rows) for rows in texts])
        # relu and max may hide values that are not finite.
        finite = torch.stack([rows.isfinite().all() for rows in texts])
        return pooled.masked_fill(~finite[:, None], torch.nan).float()

    def _sum(self, rows: Tensor) -> Tensor:
        assert self._logits is not None
        total = rows.new_zeros(1, dtype=torch.float32)
        for part in torch.split(rows, _ROWS):
            total = total + self._log(self._logits(part).relu()).sum(dim=0)
        return total

    def _log(self, activations: Tensor) -> Tensor:
        logs = activations.float().log1p()
        return logs.log1p() if self._splade.log_twice else logs


class SpladeEncoder(EncoderWithHead):
    """Encoder whose pooled vectors are the weights of the vocabulary."""

    def __init__(self, encoder: Encoder, head: SpladeHead, num_layers: int) -> None:
        super().__init__(encoder, num_layers)
        self._head = head

    def vectors(self, batch: Batch, poolings: Sequence[str]) -> Floats:
        """Return the weights of the vocabulary: (B, V). poolings: only splade."""
        return np.concatenate(list(self._groups(batch)))

    def sparse(self, batch: Batch) -> list[SparseVector]:
        """Return the non-zero weights of the vocabulary for each of B sequences."""
        return [SparseVector.of(row) for weights in self._groups(batch) for row in weights]

    @torch.inference_mode()
    def _groups(self, batch: Batch) -> Iterator[Floats]:
        # Few weights are in memory at once, although a batch may have many short sequences.
        states = self._encoder.states(batch, self._num_layers)
        size = max(1, _MAX_NUMBERS // self._head.vocab_size)
        stops = batch.lengths.cumsum()
        for first in range(0, len(stops), size):
            lengths = batch.lengths[first : first + size]
            start, stop = stops[first] - lengths[0], stops[first + len(lengths) - 1]
            yield self._head(states[start:stop], lengths.tolist())
