"""Tests of the conversion of a file by its name."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gensim.models import FastText, KeyedVectors, Word2Vec

from embedwell_models.convert.files import convert_file
from embedwell_models.convert.word_embeddings import Choices
from embedwell_models.embedder import Embedder
from embedwell_models.errors import ModelError
from embedwell_models.model_description import ModelDescription
from tests.models.git_lfs import POINTER
from tests.models.laser_files import write_laser2
from tests.models.word_files import vectors, write_text


def test_the_ending_of_the_name_decides(tmp_path: Path) -> None:
    write_laser2(tmp_path / "laser2.pt")
    write_text(tmp_path / "words.txt", vectors())
    for name, family in (("laser2.pt", "laser2"), ("words.txt", "word_vectors")):
        convert_file(tmp_path / name, tmp_path / family, Choices())
        assert ModelDescription.read(tmp_path / family).spec.config.family == family


def test_options_of_words_are_refused_for_an_encoder(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"--limit.* are for files of word vectors"):
        convert_file(tmp_path / "laser2.pt", tmp_path / "model", Choices(limit=3))


SENTENCES = [["a", "cat", "sleeps"], ["the", "dog", "barks"]] * 10


def word2vec() -> Any:
    return Word2Vec(SENTENCES, vector_size=8, min_count=1, seed=1, workers=1)


def fasttext() -> Any:
    return FastText(SENTENCES, vector_size=8, min_count=1, bucket=20, seed=1, workers=1)


@pytest.mark.parametrize(
    ("saved", "kind"),
    [(word2vec, Word2Vec), (fasttext, FastText), (lambda: word2vec().wv, KeyedVectors)],
    ids=["Word2Vec", "FastText", "KeyedVectors"],
)
@pytest.mark.parametrize("name", ["words.model", "saved.bin", "saved.txt", "saved", "saved.kv"])
def test_an_object_that_gensim_saved_is_named_with_a_program_that_exports_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, saved: Any, kind: type, name: str
) -> None:
    original = saved()
    original.save(str(tmp_path / name))
    with pytest.raises(ModelError, match=rf"{name} is a {kind.__name__} as gensim's") as refused:
        convert_file(tmp_path / name, tmp_path / "model", Choices())
    program = re.search('python -c "(.+)"$', str(refused.value))
    assert program
    monkeypatch.chdir(tmp_path)
    exec(program[1])
    convert_file(tmp_path / "words.bin", tmp_path / "model", Choices(exact=True))
    [vector] = Embedder.load(tmp_path / "model").embed(["cat"])
    words = getattr(original, "wv", original)
    np.testing.assert_allclose(vector, words["cat"], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", ["w.bin", "w.txt", "w.bin.gz", "laser2.pt", "d.model", "e.hdf5"])
def test_a_git_lfs_pointer_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(POINTER, encoding="utf-8")
    with pytest.raises(ModelError, match=rf"{name} is a Git LFS pointer.*git lfs pull"):
        convert_file(tmp_path / name, tmp_path / "model", Choices())


def test_a_file_of_another_program_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.gguf").touch()
    with pytest.raises(
        ModelError, match=r"a\.gguf is in the format GGUF .*: give the path of this file"
    ):
        convert_file(tmp_path / "a.gguf", tmp_path / "model", Choices())
