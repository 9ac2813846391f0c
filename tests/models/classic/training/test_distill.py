"""Distilled tables compared with those of the library."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from model2vec.distill import distill_from_model
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer
from transformers import AutoModel, AutoTokenizer

from embedwell_classic.training.corpus import Corpus, Pairs
from embedwell_classic.training.distill import distill
from embedwell_classic.training.sentences import SentenceTraining, new_model
from embedwell_classic.training.tokenizer import Algorithm
from embedwell_models.embedder import Embedder
from embedwell_models.errors import ModelError
from tests.models.classic.training.texts import texts, write_texts


def small_model(folder: Path, algorithm: Algorithm) -> Path:
    pairs = Pairs(Corpus(write_texts(folder / "corpus.txt", 50), "corpus.txt"))
    options: Any = {"algorithm": algorithm, "dimensions": 32, "heads": 2, "vocabulary": 330}
    model = new_model(pairs, folder / "encoder", SentenceTraining(**options))
    model.save_pretrained(str(folder / "model"), create_model_card=False)
    return folder / "model"


@pytest.mark.parametrize("algorithm", ["bpe", "wordpiece"])
def test_the_table_is_the_librarys(tmp_path: Path, algorithm: Algorithm) -> None:
    source, folder = small_model(tmp_path, algorithm), tmp_path / "static"
    folder.mkdir()
    rust = Tokenizer.from_file(str(source / "tokenizer.json"))
    rust.enable_padding(length=20)  # as of the default model
    rust.save(str(source / "tokenizer.json"))
    distill(source, folder, 16)
    assert Tokenizer.from_file(str(folder / "tokenizer.json")).encode("cat").ids[-1] != 0
    tokenizer: Any = AutoTokenizer.from_pretrained(source)
    tokenizer.backend_tokenizer.no_padding()
    model: Any = AutoModel.from_pretrained(source)
    theirs = distill_from_model(model, tokenizer, device="cpu", pca_dims=16)
    ours, sentences = Embedder.load(folder, device="cpu"), [*texts(5), "unknown words!", "cat"]
    assert ours.dim == 16
    np.testing.assert_allclose(ours.embed(sentences), theirs.encode(sentences), atol=1e-3)
    read: Any = SentenceTransformer(str(folder), device="cpu")
    np.testing.assert_allclose(ours.embed(sentences[:5]), read.encode(sentences[:5]), atol=1e-3)


def test_a_table_is_refused(tmp_path: Path) -> None:
    source, folder = small_model(tmp_path, "bpe"), tmp_path / "static"
    folder.mkdir()
    distill(source, folder, 8)
    with pytest.raises(ModelError, match=r"static is already a table; use `compress`"):
        distill(folder, tmp_path / "other", 8)


def test_a_model_that_transformers_cannot_read_is_refused(tmp_path: Path) -> None:
    source = small_model(tmp_path, "bpe")
    (source / "model.safetensors").write_bytes(b"")
    with pytest.raises(ModelError, match=r"model cannot be distilled: "):
        distill(source, tmp_path / "other", 8)
