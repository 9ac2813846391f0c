"""Converted models compared with sentence-transformers, which reads the original ones."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gensim.models import FastText, KeyedVectors, Word2Vec
from safetensors import safe_open
from sentence_transformers import SentenceTransformer

from embedwell_classic.convert.model import convert_file, convert_folder
from embedwell_classic.convert.word_embeddings import Choices
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.embedder import Embedder
from embedwell_models.errors import ModelError
from embedwell_models.hub import conversion
from tests.conftest import Folder
from tests.models.classic.convert.older import OLDER, contriever, instructor, pickled
from tests.models.colbert import write_stanford
from tests.models.families.files import edit
from tests.models.hub_server import POINTER
from tests.models.laser_files import write_laser2
from tests.models.word_files import vectors, write_text

TEXTS = ["The license of this work", "a Café, naïve & 東京; two  spaces", "x", "you " * 90]


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


@pytest.mark.parametrize("build", OLDER.values(), ids=OLDER)
def test_vectors_equal_those_of_sentence_transformers_on_the_original(
    build: Callable[[Path], None], tmp_path: Path
) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    build(source)
    convert_folder(source, target)
    expected = reference(source)
    np.testing.assert_allclose(ours(target), expected, atol=1e-4 * abs(expected).max(), rtol=0)
    again = reference(target)  # which it reads, too
    np.testing.assert_allclose(again, expected, atol=1e-4 * abs(expected).max(), rtol=0)
    assert not list(target.rglob("*.bin"))


def reference(folder: Path) -> Any:
    model = SentenceTransformer(str(folder), device="cpu", local_files_only=True)
    return model.encode(TEXTS)


def ours(folder: Path) -> Any:
    return Embedder.load(folder, device="cpu", dtype="float32").embed(TEXTS)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    contriever(folder)
    return folder


def test_only_pickles_are_converted_and_nothing_else_is_lost(tmp_path: Path, source: Path) -> None:
    convert_folder(source, tmp_path / "target")
    names = {path.name for path in source.iterdir()} - {"pytorch_model.bin"}
    assert {path.name for path in (tmp_path / "target").iterdir()} == {*names, "model.safetensors"}


def test_a_folder_that_exists_is_left_as_it_is(tmp_path: Path, source: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    (target / "mine").write_text("mine")
    with pytest.raises(ModelError, match=r"target exists already: delete it, or name another"):
        convert_folder(source, target)
    assert [path.name for path in target.iterdir()] == ["mine"]


@pytest.mark.parametrize("broken", ["config.json", "pytorch_model.bin", "vocabulary"])
def test_of_what_cannot_be_converted_nothing_is_left(
    tmp_path: Path, source: Path, broken: str
) -> None:
    if broken == "config.json":
        edit(source, model_type="convnext")
    elif broken == "pytorch_model.bin":
        (source / "pytorch_model.bin").write_bytes(b"a pickle")
    else:
        (source / "tokenizer.json").unlink()
        (source / "vocab.txt").write_bytes(b"\xff")
    with pytest.raises(ModelError, match=str(source)):
        convert_folder(source, tmp_path / "inner" / "target")
    assert not list(tmp_path.glob("inner/*"))  # nor a hidden one


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path, source: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ModelError, match=r"target cannot be written"):
        convert_folder(source, tmp_path / "file" / "target")


def test_parts_that_are_safetensors_already_are_copied(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    instructor(source)
    convert_folder(source, target)
    (target / "2_Dense" / "model.safetensors").unlink()
    pickle = (source / "2_Dense" / "pytorch_model.bin").read_bytes()
    (target / "2_Dense" / "pytorch_model.bin").write_bytes(pickle)
    assert conversion.parts_without_safetensors(target) == ["2_Dense"]
    convert_folder(target, tmp_path / "again")
    assert conversion.parts_without_safetensors(tmp_path / "again") == []
    with safe_open(tmp_path / "again" / "2_Dense" / "model.safetensors", "pt") as file:
        assert list(file.keys()) == ["linear.weight"]


def test_a_pickle_with_a_tensor_that_the_family_lacks_is_refused(
    tmp_path: Path, source: Path
) -> None:
    path = source / "pytorch_model.bin"
    torch.save({**torch.load(path, weights_only=True), "other.weight": torch.ones(2)}, path)
    with pytest.raises(ModelError, match=r"unknown tensor 'other\.weight'"):
        convert_folder(source, tmp_path / "target")


def test_a_model_without_weights_is_named(tmp_path: Path, source: Path) -> None:
    (source / "pytorch_model.bin").unlink()
    with pytest.raises(ModelError, match=r"has neither model\.safetensors nor pytorch_model\.bin"):
        convert_folder(source, tmp_path / "target")


def test_the_weights_of_the_original_are_refused_with_the_command(source: Path) -> None:
    with pytest.raises(ModelError, match=r"is a pickle, .* `embedwell convert MODEL`"):
        Embedder.load(source)


def test_weights_need_nothing_but_torch(tmp_path: Path, source: Path) -> None:
    program = (
        "import sys; sys.modules['transformers'] = None; from pathlib import Path;"
        "from embedwell_classic.convert.model import convert_folder;"
        "convert_folder(*map(Path, sys.argv[1:]))"
    )
    target = tmp_path / "target"
    subprocess.run([sys.executable, "-c", program, source, target], check=True)
    assert (target / "model.safetensors").is_file()


@pytest.mark.full
def test_a_process_of_its_own_converts_and_its_error_is_told(tmp_path: Path, source: Path) -> None:
    conversion.convert_in_subprocess(source, tmp_path / "target")
    assert (tmp_path / "target" / "model.safetensors").is_file()
    edit(source, model_type="convnext")
    with pytest.raises(ModelError, match=r"could not be converted: \S*config\.json: .*'convnext'"):
        conversion.convert_in_subprocess(source, tmp_path / "other")


def test_a_model_that_is_as_it_should_be_needs_no_conversion(tiny_bert: Folder) -> None:
    assert conversion.parts_without_safetensors(tiny_bert()) == []


def test_a_colbert_of_stanford_keeps_its_projection_and_its_options(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    write_stanford(source, query_maxlen=9)
    expected = Embedder.load(source, device="cpu", dtype="float32").embed_tokens(["of"], "query")
    pickled(source)
    convert_folder(source, target)
    vectors = Embedder.load(target, device="cpu", dtype="float32").embed_tokens(["of"], "query")
    assert vectors[0].shape == (9, 16) and np.array_equal(vectors, expected)
