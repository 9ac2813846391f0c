"""Heads of masked language models: how they are read, and the sequences of a call."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from embedwell_models.encoder.batch import Batch
from embedwell_models.encoder.encoder import SequentialEncoder
from embedwell_models.encoder.splade import MaskedLMWeights, SpladeEncoder, load_masked_lm_weights
from embedwell_models.errors import ModelError
from embedwell_models.families.heads import MaskedLMHead
from embedwell_models.vectors import Floats
from tests.models.sparse_encoder import write_masked_lm

HEAD = MaskedLMHead(
    dense="cls.predictions.transform.dense",
    norm="cls.predictions.transform.LayerNorm",
    output="cls.predictions.decoder",
    output_bias="cls.predictions.bias",
)
TABLE = "bert.embeddings.word_embeddings.weight"
LAYERS = 3
ROWS = [[1, 2, 3], [4], [5, 6], [7, 8, 9, 10], [11]]


def tensors(folder: Path) -> dict[str, Floats]:
    return load_file(write_masked_lm(folder) / "model.safetensors")


def load(folder: Path, changed: dict[str, Floats]) -> MaskedLMWeights:
    save_file(changed, folder / "model.safetensors")
    return load_masked_lm_weights(folder, HEAD, changed[TABLE], 64)


def test_the_output_matrix_is_the_token_table_unless_the_file_has_another(tmp_path: Path) -> None:
    read = tensors(tmp_path)
    assert np.array_equal(load(tmp_path, read).output[0], read[TABLE])
    own = read[TABLE] + 1
    changed = {**read, "cls.predictions.decoder.weight": own}
    assert np.array_equal(load(tmp_path, changed).output[0], own)


def test_a_norm_that_was_saved_by_tensorflow_is_read(tmp_path: Path) -> None:
    read = tensors(tmp_path)
    renamed = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): array
        for name, array in read.items()
    }
    norm = load(tmp_path, renamed).norm
    assert norm is not None
    assert np.array_equal(norm[1], read["cls.predictions.transform.LayerNorm.bias"])


def test_a_tensor_that_is_missing_is_named(tmp_path: Path) -> None:
    read = tensors(tmp_path)
    del read["cls.predictions.transform.dense.bias"]
    with pytest.raises(ModelError, match=r"lacks \['cls.predictions.transform.dense.bias'\]"):
        load(tmp_path, read)


def test_a_tensor_of_another_shape_is_refused(tmp_path: Path) -> None:
    read = {**tensors(tmp_path), "cls.predictions.bias": np.zeros(7, np.float32)}
    with pytest.raises(ModelError, match=r"cls.predictions.bias has the shape \(7,\)"):
        load(tmp_path, read)


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
