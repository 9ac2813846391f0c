"""Models in GGUF have the vectors of the models that they were made of."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from embedwell_models.description.model_description import ModelDescription
from embedwell_models.embedder import Embedder
from embedwell_models.errors import ModelError
from embedwell_models.hub import sources
from tests.models import gguf_files


def load(file: Path, cache: Path) -> Embedder:
    return Embedder.load(sources.resolve(str(file), cache=cache), device="cpu", dtype="float32")


@pytest.fixture(scope="module")
def bert_file(minilm_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The default model in float32, written once."""
    return gguf_files.write_bert(minilm_folder, tmp_path_factory.mktemp("gguf") / "a.gguf")


def test_a_file_in_float32_has_the_ids_and_the_vectors_of_its_model(
    bert_file: Path, embedder: Embedder, texts: list[str], tmp_path: Path
) -> None:
    loaded = load(bert_file, tmp_path)
    ids = [loaded.tokenize(text)[:200] for text in texts]
    assert ids == [embedder.tokenize(text)[:200] for text in texts]
    assert np.array_equal(loaded.embed(texts[30:40]), embedder.embed(texts[30:40]))


def test_quantised_weights_are_read_and_described(
    minilm_folder: Path, embedder: Embedder, texts: list[str], tmp_path: Path
) -> None:
    file = gguf_files.write_bert(minilm_folder, tmp_path / "a.gguf", quantized=True)
    loaded = load(file, tmp_path)
    vectors, expected = loaded.embed(texts[30:40]), embedder.embed(texts[30:40])
    assert (vectors * expected).sum(axis=1).min() > 0.999
    alone = [loaded.embed([text])[0] for text in texts[30:40]]
    assert np.array_equal(vectors, alone)
    description = ModelDescription.read(sources.resolve(str(file), cache=tmp_path))
    assert description.weights_format == "GGUF"
    assert description.stored_numbers["Q8_0"] == 6 * (4 * 384 * 384 + 2 * 384 * 1536)


def test_a_folder_with_one_file_is_that_file(bert_file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    file = Path(shutil.copy(bert_file, folder / "a.gguf"))
    assert sources.resolve(str(folder), cache=tmp_path) == sources.resolve(
        str(file), cache=tmp_path
    )
    blob = folder / f"sha256-{64 * 'a'}"
    file.rename(blob)
    with_suffix = sources.resolve(str(blob), cache=tmp_path)
    assert ModelDescription.read(with_suffix).weights_format == "GGUF"
    blob.rename(file)
    (folder / "b.gguf").touch()
    with pytest.raises(ModelError, match=r"has 2 GGUF files: give one, such as .*a\.gguf"):
        sources.resolve(str(folder), cache=tmp_path)


def test_a_model_in_parts_has_the_vectors_of_the_whole(
    minilm_folder: Path, embedder: Embedder, texts: list[str], tmp_path: Path
) -> None:
    folder = tmp_path / "parts"
    folder.mkdir()
    first, second, _ = gguf_files.write_parts(minilm_folder, folder)
    for given in (folder, first):
        loaded = load(given, tmp_path)
        assert np.array_equal(loaded.embed(texts[30:34]), embedder.embed(texts[30:34]))
    before = loaded.fingerprint
    content = bytearray(second.read_bytes())
    content[-5] ^= 1
    second.write_bytes(content)
    assert load(first, tmp_path).fingerprint != before
    with pytest.raises(ModelError, match=r"is one of 3 parts: give the first"):
        load(second, tmp_path)
    second.unlink()
    with pytest.raises(ModelError, match=r"has 2 of its 3 parts in its folder"):
        load(first, tmp_path)


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"general.architecture": "clip"}, "architecture 'clip' are not read; supported: bert"),
        ({"general.architecture": "bert"}, "token_embd.weight"),
        ({"split.count": 2}, r"one of 2 parts: give the first, whose name ends in -00001-of-00002"),
        ({"general.type": "adapter"}, "of the type 'adapter', not a model"),
    ],
)
def test_other_files_are_refused_by_name(
    tmp_path: Path, metadata: dict[str, object], message: str
) -> None:
    file = gguf_files.write(tmp_path / "a.gguf", metadata, {})
    with pytest.raises(ModelError, match=message):
        sources.resolve(str(file), cache=tmp_path)


@pytest.mark.parametrize("size", [0, 3, 40, 5000])
def test_a_file_that_is_not_whole_is_refused(bert_file: Path, tmp_path: Path, size: int) -> None:
    (tmp_path / "b.gguf").write_bytes(bert_file.read_bytes()[:size])
    with pytest.raises(ModelError, match="cannot be read as GGUF"):
        sources.resolve(str(tmp_path / "b.gguf"), cache=tmp_path)
