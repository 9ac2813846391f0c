"""Word vectors: the rows of a table for the words of texts, and their mean.

B texts, T token ids, W words, D dimensions. Computed on a CPU, where the table is mapped into
memory: a look-up has no product that a GPU would speed up.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.encoder.batch import Batch, Integers
from embedwell_models.encoder.encoder import SequentialEncoder
from embedwell_models.encoder.pooling import pool
from embedwell_models.encoder.sequence_layout import SequenceLayout
from embedwell_models.tables.table import Table
from embedwell_models.vectors import Floats

_CPU = torch.device("cpu")
_MIN_WEIGHT = 1e-9  # a sum of weights that is divided by, as in sentence-transformers

WEIGHT_SUM_POWERS: Mapping[str, float] = {
    "cls": 0.0,
    "max": 0.0,
    "mean": 1.0,
    "mean_sqrt_len_tokens": 0.5,
    "lasttoken": 0.0,
}
"""The power of the sum of the words' weights that each pooling mode divides by.

0 for a mode that divides by nothing. MODES_WITHOUT_WORD_WEIGHTS have none: they are refused.
"""


@dataclass(frozen=True)
class _Words:
    """The words of a batch. vectors: (W, D). rows: (W,) of the first id of each in the table.

    counts: (W,) how many ids each has. text: (W,) the index of each one's text. known: (W,) whether
    each has a vector that is pooled.
    """

    vectors: Tensor
    rows: Integers
    counts: Integers
    text: Integers
    known: npt.NDArray[np.bool_]


class WordVectorEncoder(SequentialEncoder):
    """An encoder without layers: a table (rows, D) of the vectors of words and n-grams.

    unknown_id of the config, the id after the last row, is that of a word without a vector: it has
    zeros, and is left out of the pooling. An id plus vocab_size is one more n-gram of the word of
    the id before it, and the vector of such a word is the mean of those of its n-grams.
    """

    def __init__(
        self,
        config: EncoderConfig,
        table: Table,
        weights: Tensor | None,
    ) -> None:
        """weights: (rows,) of each word in the mean; None for equal ones."""
        self.config, self.device = config, _CPU
        self.table, self._weights = table, weights

    def part(self, name: str, batch: Batch) -> Floats:
        """Return the vectors of words, without their weights, for each id: (T, D)."""
        return self._for_each_id(self._words(batch))

    def states(self, batch: Batch, num_layers: int) -> Floats:
        """Return the weighted vectors of words, for each id: (T, D)."""
        words = self._words(batch)
        return self._for_each_id(words, self._weights_of(words))

    @torch.inference_mode()
    def vectors(self, batch: Batch, poolings: Sequence[str]) -> Floats:
        """Pool the weighted vectors of words, concatenating the poolings: (B, poolings * D)."""
        words = self._words(batch)
        texts = len(batch.lengths)
        lengths = np.bincount(words.text[words.known], minlength=texts)
        vectors = words.vectors[torch.from_numpy(words.known)]
        weights = self._weights_of(words)
        if weights is not None:
            vectors = vectors * weights[words.known][:, None]
        layout = SequenceLayout(lengths.tolist(), _CPU)
        pooled = pool(vectors, layout, poolings)
        if weights is not None:
            pooled *= self._rescaling(words, weights, lengths, poolings)
        return np.asarray(pooled.numpy(), dtype=np.float32)

    def warm(self) -> None:
        """Do nothing: a look-up needs no preparation."""

    def _words(self, batch: Batch) -> _Words:
        size = self.config.vocab_size
        text = np.repeat(np.arange(len(batch.lengths)), batch.lengths)
        begins = batch.ids < size
        begins |= batch.positions == 0  # also after a cut inside of a word
        starts = np.flatnonzero(begins)
        counts = np.diff(starts, append=len(batch.ids))
        rows = batch.ids % size
        known = rows[starts] < self.config.num_vectors
        pooled = known & (batch.positions >= batch.prompt_token_counts[text])[starts]
        return _Words(self._means(rows, counts, known), rows[starts], counts, text[starts], pooled)

    def _means(self, rows: Integers, counts: Integers, known: npt.NDArray[np.bool_]) -> Tensor:
        last_row = len(self.table) - 1
        vectors = torch.from_numpy(self.table[np.minimum(rows, last_row)])
        lengths = torch.from_numpy(counts)
        if len(counts) < len(rows):
            sums = torch.segment_reduce(vectors, "sum", lengths=lengths, axis=0, unsafe=True)
            vectors = sums * (1.0 / lengths.double()).float()[:, None]
        return vectors.masked_fill(~torch.from_numpy(known)[:, None], 0.0)

    def _for_each_id(self, words: _Words, weights: Tensor | None = None) -> Floats:
        vectors = words.vectors if weights is None else words.vectors * weights[:, None]
        return np.repeat(vectors.numpy(), words.counts, axis=0)

    def _weights_of(self, words: _Words) -> Tensor | None:
        if self._weights is None:
            return None
        return self._weights[torch.from_numpy(np.minimum(words.rows, len(self._weights) - 1))]

    def _rescaling(
        self, words: _Words, weights: Tensor, lengths: Integers, poolings: Sequence[str]
    ) -> Tensor:
        # From a division by the number of words to one by the sum of their weights: (B, modes * D).
        sums = np.bincount(words.text[words.known], weights[words.known], minlength=len(lengths))
        ratios = lengths / np.maximum(sums, _MIN_WEIGHT)
        factors = np.stack([ratios ** WEIGHT_SUM_POWERS[mode] for mode in poolings], axis=1)
        return torch.from_numpy(factors).float().repeat_interleave(self.config.hidden_size, dim=1)
