"""GloVe: word vectors whose inner products approximate logarithms of co-occurrences.

Pennington, Socher and Manning 2014, "GloVe: Global Vectors for Word Representation". V words, D
dimensions, N pairs of words that occur together.
"""

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse  # type: ignore[import-untyped]

from embedwell_models.vectors import Floats

Ids = npt.NDArray[np.int64]
_MAX_COUNT, _EXPONENT = 100.0, 0.75  # x_max and alpha in the paper
_LEARNING_RATE = 0.05
_BATCHES = 256  # minimum batches of an epoch
_MAX_BATCH = 4096  # pairs
_BLOCK = 1 << 20  # words whose pairs are counted at once

log = logging.getLogger(__name__)


def vocabulary(texts: Iterable[list[str]], min_count: int) -> dict[str, int]:
    """Return words with at least `min_count` occurrences, most frequent first, with counts."""
    counts = Counter(word for words in texts for word in words)
    return {word: count for word, count in counts.most_common() if count >= min_count}


def cooccurrences(texts: Iterable[list[str]], ids: Mapping[str, int], window: int) -> Any:
    """Count pairs of words in a sparse symmetric matrix X (V, V).

    Two words at a distance of d <= `window` vocabulary words count 1 / d.
    """
    total: Any = sparse.csr_array((len(ids),) * 2, dtype=np.float64)
    for words, numbers in _blocks(texts, ids):
        for distance in range(1, window + 1):
            in_one_text = numbers[distance:] == numbers[:-distance]
            pairs = (words[:-distance][in_one_text], words[distance:][in_one_text])
            weights = np.full(len(pairs[0]), 1 / distance)
            total += sparse.coo_array((weights, pairs), shape=total.shape).tocsr()
    return (total + total.T).tocoo()


def fit(counts: Any, dimensions: int, epochs: int, seed: int) -> Floats:
    """Return w + w̃ of each word (V, D), trained on all pairs of `cooccurrences`."""
    random = np.random.default_rng(seed)
    model = Glove(counts.shape[0], dimensions, random)
    rows, columns = counts.coords
    batches = max(_BATCHES, len(rows) // _MAX_BATCH)
    for epoch in range(1, epochs + 1):
        order = np.array_split(random.permutation(len(rows)), batches)
        loss = sum(model.step(rows[b], columns[b], counts.data[b]) for b in order if len(b))
        log.info("epoch %s of %s: loss %.4f", epoch, epochs, loss / max(len(rows), 1))
    vectors: Floats = (model.words + model.contexts)[:, :-1]
    return vectors


class Glove:
    """Tables of words and of contexts (V, D + 1), whose last column is the bias."""

    def __init__(self, words: int, dimensions: int, random: np.random.Generator) -> None:
        """Draw all numbers from -0.5 / D to 0.5 / D, as in the authors' program."""
        shape = (words, dimensions + 1)
        self.words, self.contexts = (
            ((random.random(shape) - 0.5) / dimensions).astype(np.float32) for _ in range(2)
        )
        self._squares = [np.ones(shape, np.float32) for _ in range(2)]  # AdaGrad's

    def step(self, rows: Ids, columns: Ids, counts: npt.NDArray[np.floating[Any]]) -> float:
        """Take an AdaGrad step on the loss Σ f(X) (w·w̃ + b + b̃ - ln X)² / 2; return the loss.

        f(X) = min(1, (X / 100)^0.75).
        """
        word, context = self.words[rows], self.contexts[columns]
        products = np.vecdot(word[:, :-1], context[:, :-1])
        errors = products + word[:, -1] + context[:, -1] - np.log(counts)
        weights = np.minimum(counts / _MAX_COUNT, 1) ** _EXPONENT
        slopes = (weights * errors).astype(np.float32)[:, None]
        _descend(self.words, self._squares[0], rows, slopes * _with_one(context))
        _descend(self.contexts, self._squares[1], columns, slopes * _with_one(word))
        return float(weights @ errors**2) / 2


def _descend(table: Floats, squares: Floats, ids: Ids, gradients: Floats) -> None:
    """Update the rows that have gradients; gradients of a repeated id are added."""
    changed, places = np.unique(ids, return_inverse=True)
    total = np.zeros((len(changed), table.shape[1]), np.float32)
    np.add.at(total, places, gradients)
    squares[changed] += total**2
    table[changed] -= np.float32(_LEARNING_RATE) * total / np.sqrt(squares[changed])


def _with_one(rows: Floats) -> Floats:
    """Return rows with 1 in the last column (bias): the derivative by the other bias."""
    rows = rows.copy()
    rows[:, -1] = 1
    return rows


def _blocks(texts: Iterable[list[str]], ids: Mapping[str, int]) -> Iterator[tuple[Ids, Ids]]:
    """Yield blocks of word ids, and the number of each word's text."""
    words: list[int] = []
    numbers: list[int] = []
    for number, text in enumerate(texts):
        known = [ids[word] for word in text if word in ids]
        words += known
        numbers += [number] * len(known)
        if len(words) >= _BLOCK:
            yield np.array(words), np.array(numbers)
            words, numbers = [], []
    if words:
        yield np.array(words), np.array(numbers)
