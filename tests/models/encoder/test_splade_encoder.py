"""Grouping of sequences for a head over the vocabulary."""

from collections.abc import Sequence

import numpy as np
import pytest

from embedwell_models.encoder.batch import Batch
from embedwell_models.encoder.encoder import SequentialEncoder
from embedwell_models.encoder.splade_encoder import SpladeEncoder
from embedwell_models.vectors import Floats

LAYERS = 3
ROWS = [[1, 2, 3], [4], [5, 6], [7, 8, 9, 10], [11]]


class IdEncoder(SequentialEncoder):
    """Encoder whose states are the ids."""

    def states(self, batch: Batch, num_layers: int) -> Floats:
        assert num_layers == LAYERS
        return batch.ids.astype(np.float32)[:, None]

    def vectors(self, batch: Batch, poolings: Sequence[str]) -> Floats:
        raise NotImplementedError

    def warm(self) -> None:
        pass


class SumHead:
    """Head that gives the first entry of the vocabulary the sum of a text's states."""

    def __init__(self, vocab_size: int) -> None:
        self.vocab_size = vocab_size
        self.counts: list[int] = []

    def __call__(self, states: Floats, lengths: Sequence[int]) -> Floats:
        assert len(states) == sum(lengths)
        self.counts.append(len(lengths))
        weights = np.zeros((len(lengths), self.vocab_size), np.float32)
        parts = np.split(states, np.cumsum(lengths)[:-1])
        weights[:, 0] = [part.sum() for part in parts]
        return weights


@pytest.mark.parametrize(("vocab_size", "counts"), [(1 << 23, [2, 2, 1]), (9, [5])])
def test_few_weights_are_in_memory_at_once(vocab_size: int, counts: list[int]) -> None:
    head = SumHead(vocab_size)
    vectors = SpladeEncoder(IdEncoder(), head, LAYERS).sparse(Batch.of(ROWS))
    assert head.counts == counts
    assert [vector.indices.tolist() for vector in vectors] == [[0]] * 5
    assert [vector.weights.tolist() for vector in vectors] == [[sum(row)] for row in ROWS]


def test_vectors_have_a_weight_for_each_entry_of_the_vocabulary() -> None:
    vectors = SpladeEncoder(IdEncoder(), SumHead(4), LAYERS).vectors(Batch.of(ROWS), ["splade"])
    assert vectors.tolist() == [[sum(row), 0, 0, 0] for row in ROWS]
