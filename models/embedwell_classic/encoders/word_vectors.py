"""Word vectors: rows of a table for the words of texts, and their pooling.

Word2Vec (Mikolov et al. 2013, arXiv 1301.3781), GloVe (Pennington et al. 2014), fastText
(Bojanowski et al. 2016, arXiv 1607.04606).

B texts, T token ids, W words, D dimensions. The computation is on a CPU, where the table is mapped
into memory; a look-up has no product that a GPU would speed up.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt

from embedwell_classic.families.word_vectors import TABLE
from embedwell_classic.words.table import mapped_parts
from embedwell_models.checkpoint import safetensors_files, tables, weights
from embedwell_models.checkpoint.tables import Table
from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.encoder.batch import Batch, Integers
from embedwell_models.encoder.device import Device
from embedwell_models.encoder.encoder import SequentialEncoder
from embedwell_models.encoder.pooling import pool_rows
from embedwell_models.errors import ModelError
from embedwell_models.vectors import Floats

_MIN_WEIGHT = 1e-9  # minimum sum of weights in a division, as in sentence-transformers

WEIGHT_SUM_POWERS: Mapping[str, float] = {
    "cls": 0.0,
    "max": 0.0,
    "mean": 1.0,
    "mean_sqrt_len_tokens": 0.5,
    "lasttoken": 0.0,
}
"""Pooling mode -> power of the sum of word weights in its divisor.

0 means no division. MODES_WITHOUT_WORD_WEIGHTS are missing because they are refused.
"""


@dataclass(frozen=True)
class _Words:
    """Words of a batch. vectors: (W, D). rows: (W,) table row of each word's first id.

    counts: (W,) number of ids of each word. text: (W,) index of each word's text. known: (W,)
    whether the word has a vector and is pooled.
    """

    vectors: Floats
    rows: Integers
    counts: Integers
    text: Integers
    known: npt.NDArray[np.bool_]


class WordVectorEncoder(SequentialEncoder):
    """Encoder without layers: a table (rows, D) of the vectors of words and n-grams.

    The config's unknown_id, which follows the last row, marks a word without a vector: its vector
    is zero, and the pooling leaves it out. An id plus vocab_size is a further n-gram of the word of
    the id before it. The vector of such a word is the mean of its n-grams' vectors.
    """

    def __init__(
        self,
        config: EncoderConfig,
        table: Table,
        word_weights: Floats | None,
    ) -> None:
        """word_weights: (rows,) weight of each word in the mean; None for equal weights."""
        self.config, self.device = config, Device("cpu")
        self.table, self._weights = table, word_weights

    @classmethod
    def load(cls, description: ModelDescription, device: str, cpu_features: frozenset[str]) -> Self:
        """Map the table of a folder into memory, and read its weights; raises ModelError."""
        parts = mapped_parts(description.encoder, description.spec)
        tables.check(parts, description.spec.tensors)
        table = tables.build(parts)
        return cls(description.spec.config, table, _read_word_weights(description, len(table)))

    def part(self, name: str, batch: Batch) -> Floats:
        """Return the vectors of words, without their weights, for each id: (T, D)."""
        return self._for_each_id(self._words(batch))

    def states(self, batch: Batch, num_layers: int) -> Floats:
        """Return the weighted vectors of words, for each id: (T, D)."""
        words = self._words(batch)
        return self._for_each_id(words, self._weights_of(words))

    def vectors(self, batch: Batch, poolings: Sequence[str]) -> Floats:
        """Pool the weighted vectors of words, concatenating the poolings: (B, poolings * D)."""
        words = self._words(batch)
        texts = len(batch.lengths)
        lengths = np.bincount(words.text[words.known], minlength=texts)
        vectors = words.vectors[words.known]
        weights = self._weights_of(words)
        if weights is not None:
            vectors = vectors * weights[words.known][:, None]
        pooled = pool_rows(vectors, lengths, poolings)
        if weights is not None:
            pooled *= self._rescaling(words, weights, lengths, poolings)
        return pooled

    def _words(self, batch: Batch) -> _Words:
        size = self.config.vocab_size
        text = np.repeat(np.arange(len(batch.lengths)), batch.lengths)
        begins = batch.ids < size
        begins |= batch.positions == 0  # also after a truncation inside a word
        starts = np.flatnonzero(begins)
        counts = np.diff(starts, append=len(batch.ids))
        rows = batch.ids % size
        known = rows[starts] < self.config.num_vectors
        pooled = known & (batch.positions >= batch.prompt_token_counts[text])[starts]
        return _Words(self._means(rows, counts, known), rows[starts], counts, text[starts], pooled)

    def _means(self, rows: Integers, counts: Integers, known: npt.NDArray[np.bool_]) -> Floats:
        last_row = len(self.table) - 1
        vectors = self.table[np.minimum(rows, last_row)]
        if len(counts) < len(rows):
            vectors = _sums(vectors, counts) * (1.0 / counts).astype(np.float32)[:, None]
        return np.where(known[:, None], vectors, np.float32(0))

    def _for_each_id(self, words: _Words, weights: Floats | None = None) -> Floats:
        vectors = words.vectors if weights is None else words.vectors * weights[:, None]
        return np.repeat(vectors, words.counts, axis=0)

    def _weights_of(self, words: _Words) -> Floats | None:
        if self._weights is None:
            return None
        weights: Floats = self._weights[np.minimum(words.rows, len(self._weights) - 1)]
        return weights

    def _rescaling(
        self, words: _Words, weights: Floats, lengths: Integers, poolings: Sequence[str]
    ) -> Floats:
        # Factors (B, modes * D) from a division by the number of words to one by their weights.
        sums = np.bincount(words.text[words.known], weights[words.known], minlength=len(lengths))
        ratios = lengths / np.maximum(sums, _MIN_WEIGHT)
        factors = np.stack([ratios ** WEIGHT_SUM_POWERS[mode] for mode in poolings], axis=1)
        return factors.astype(np.float32).repeat(self.config.hidden_size, axis=1)


def _sums(rows: Floats, counts: Integers) -> Floats:
    # The sum of the rows of each word, in their order: (rows, D) -> (W, D).
    starts = counts.cumsum() - counts
    sums: Floats = rows[starts]
    for index in range(1, counts.max(initial=0)):
        longer = counts > index
        sums[longer] += rows[starts[longer] + index]
    return sums


def _read_word_weights(description: ModelDescription, rows: int) -> Floats | None:
    """Read the weights of the rows of a table; None if they are equal. Raises ModelError."""
    if description.recipe.word_weights is None:
        return None
    path = description.path / description.recipe.word_weights
    tensors = {
        name: safetensors_files.to_finite_float32(path, name, part)
        for name, part in weights.iterate_tensors(path)
    }
    shapes = {name: part.shape for name, part in tensors.items()}
    if shapes != {TABLE: (rows, 1)}:
        raise ModelError(f"{path} has {shapes}, and the table {rows} words")
    word_weights = tensors[TABLE].flatten()
    _check_options(path, word_weights)
    return word_weights


def _check_options(path: Path, word_weights: Floats) -> None:
    """Raise ModelError if the options of WordWeights state other weights than its tensor.

    sentence-transformers follows the options. Rows after the vocabulary are those of n-grams.
    """
    options = JsonConfig.optional(path / "config.json")
    if "word_weights" not in options:
        return
    stated, other = options["word_weights"], options.get("unknown_word_weight", 1)
    expected = [stated.get(word, stated.get(word.lower(), other)) for word in options["vocab"]]
    expected += [other] * (len(word_weights) - len(expected))
    expected_weights = np.array(expected, np.float32)
    if expected_weights.shape != word_weights.shape or not np.allclose(
        expected_weights, word_weights
    ):
        raise ModelError(
            f"{options.path}: vocab, word_weights or unknown_word_weight contradict the weights in "
            "model.safetensors: load and save the model with sentence-transformers"
        )
