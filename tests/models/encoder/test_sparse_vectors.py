"""Sparse vectors of tokens' own weights."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from embedwell_models.encoder.sparse_vectors import QueryVectors, TokenWeightVectors
from embedwell_models.errors import ModelError
from embedwell_models.model_files.sparse import TOKEN_WEIGHTS, QueryWeights
from embedwell_models.outputs.text_outputs import SparseVector
from embedwell_models.tokenizer.tokenizer import Tokenizer
from tests.models.tiny import VOCABULARY, write_tokenizer

THE, WORK, CLS, SEP, UNK = (VOCABULARY[name] for name in ("the", "work", "[CLS]", "[SEP]", "[UNK]"))


@pytest.fixture
def tokenizer(tmp_path: Path) -> Tokenizer:
    write_tokenizer(tmp_path)
    return Tokenizer(tmp_path, 64)


def entries(vector: SparseVector) -> dict[int, float]:
    return dict(zip(vector.indices.tolist(), vector.weights.tolist(), strict=True))


def test_the_largest_weight_of_a_token_counts_and_special_tokens_do_not(
    tokenizer: Tokenizer, tmp_path: Path
) -> None:
    weights = {"weight": torch.tensor([[2.0, 0.0]]), "bias": torch.tensor([1.0])}
    save_file(weights, tmp_path / TOKEN_WEIGHTS)
    ids = np.array([CLS, WORK, THE, WORK, UNK, SEP, 50])
    states = np.array([[9, 9], [1, 9], [0.5, 9], [3, 9], [9, 9], [9, 9], [-4, 9]], np.float32)
    vectors = TokenWeightVectors(tmp_path, tokenizer, 2)
    vector = vectors(ids, vectors.weigh(states))
    expected = {WORK: 7.0, THE: 2.0}
    assert entries(vector) == expected and vector.indices.dtype == np.int32


def test_weights_of_another_width_are_refused(tokenizer: Tokenizer, tmp_path: Path) -> None:
    save_file({"weight": torch.zeros(1, 3)}, tmp_path / TOKEN_WEIGHTS)
    with pytest.raises(ModelError, match=r"safetensors has the shapes \{'weight': \(1, 3\)\}"):
        TokenWeightVectors(tmp_path, tokenizer, 3)


def test_a_query_has_the_weights_of_its_distinct_tokens(
    tokenizer: Tokenizer, tmp_path: Path
) -> None:
    save_file({"weight": torch.arange(len(VOCABULARY)) / 2}, tmp_path / "model.safetensors")
    vectors = QueryVectors(tmp_path, QueryWeights(""), tokenizer, len(VOCABULARY))
    ids = tokenizer.encode(["work the work"])[0].ids
    assert entries(vectors(ids)) == {THE: THE / 2, WORK: WORK / 2}
    assert entries(vectors([WORK])) == {WORK: WORK / 2}, "ids without special tokens"


@pytest.mark.parametrize(
    ("idf", "message"),
    [({"nothing": 1}, "has no token 'nothing'"), ({"the": "much"}, "of 'the' is not a number")],
)
def test_a_file_of_weights_that_does_not_fit_is_refused(
    idf: dict[str, object], message: str, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    (tmp_path / "idf.json").write_text(json.dumps(idf), encoding="utf-8")
    with pytest.raises(ModelError, match=message):
        QueryVectors(tmp_path, QueryWeights("", "idf.json"), tokenizer, len(VOCABULARY))
