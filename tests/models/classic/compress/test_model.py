"""Smaller tables embed nearly as before; those that keep all that counts, exactly so."""

import json
import string
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers
from safetensors.numpy import load_file, save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import modules as st
from tokenizers import models, pre_tokenizers

from embedwell_classic.compress.forms import parse_bands
from embedwell_classic.compress.model import Compression, compress_folder
from embedwell_classic.convert.word_embeddings import Choices, convert_words
from embedwell_classic.words.neighbors import NeighborTable, by_metric
from embedwell_classic.words.table import WordTable
from embedwell_models.description.footprint import Footprint
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.embedder import Embedder
from embedwell_models.errors import ModelError
from embedwell_models.tokenizer.steps import run_to_completion
from embedwell_models.vectors import Floats
from tests.conftest import Folder as WriteModel
from tests.models.tiny import write_static_model
from tests.models.word_files import WORDS, vectors, write_fasttext, write_text

CORPUS = ["the king and the queen", "a Woman in Berlin: unknwn", ""]
STATIC_CORPUS = ["the work of others", "any license", "zoo"]


def embed(folder: Path, texts: list[str]) -> Floats:
    return Embedder.load(folder, device="cpu", dtype="float32").embed(texts)


@pytest.fixture
def words(tmp_path: Path) -> Path:
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("\n".join(CORPUS), encoding="utf-8")
    path, target = write_fasttext(tmp_path / "model.bin"), tmp_path / "words"
    convert_words(path, target, Choices(weights="idf", corpus=corpus))
    return target


def test_words_of_a_corpus_keep_their_vectors_and_weights(words: Path, tmp_path: Path) -> None:
    compress_folder(words, tmp_path / "small", Compression(corpus=CORPUS))
    np.testing.assert_array_equal(embed(tmp_path / "small", CORPUS), embed(words, CORPUS))
    table = WordTable.of(ModelDescription.read(tmp_path / "small"))
    tokenizer = Embedder.load(tmp_path / "small", device="cpu").tokenizer
    names = [tokenizer.name(id) for id in range(0 if table is None else len(table))]
    assert names == ["the", "king", "queen", "woman", "Berlin"]


def test_rows_of_integers_are_close_and_a_quarter_as_large(words: Path, tmp_path: Path) -> None:
    compress_folder(words, tmp_path / "small", Compression(int8=True))
    expected = embed(words, CORPUS)
    actual = embed(tmp_path / "small", CORPUS)
    np.testing.assert_allclose(actual, expected, atol=0.01 * np.abs(expected).max())
    assert not np.array_equal(actual, expected)
    assert (tmp_path / "small" / "model.safetensors").stat().st_size < 0.5 * (
        words / "model.safetensors"
    ).stat().st_size
    small = WordTable.of(ModelDescription.read(tmp_path / "small"))
    whole = WordTable.of(ModelDescription.read(words))
    assert small is not None and whole is not None
    np.testing.assert_allclose(small[:5], whole[:5], atol=0.005)
    alone = np.concatenate([embed(tmp_path / "small", [text]) for text in CORPUS])
    assert actual.tobytes() == alone.tobytes()


def test_all_dimensions_keep_every_cosine_and_fewer_most(words: Path, tmp_path: Path) -> None:
    expected = embed(words, CORPUS)
    for dimensions, atol in ((12, 1e-5), (9, 0.2)):
        target = tmp_path / f"{dimensions}"
        compress_folder(words, target, Compression(dimensions=dimensions))
        actual = embed(target, CORPUS)
        assert actual.shape == (3, dimensions)
        np.testing.assert_allclose(actual @ actual.T, expected @ expected.T, atol=atol)


def test_sentence_transformers_reads_what_stays_in_float32(tmp_path: Path) -> None:
    convert_words(write_text(tmp_path / "a.txt", vectors()), tmp_path / "words")
    target = tmp_path / "small"
    compress_folder(tmp_path / "words", target, Compression(CORPUS, dimensions=7))
    theirs = SentenceTransformer(str(target), device="cpu").encode(CORPUS)
    np.testing.assert_allclose(embed(target, CORPUS), theirs, atol=1e-6)


@pytest.mark.parametrize("options", [{}, {"int8": True}, {"dimensions": 12}], ids=str)
def test_a_static_models_vocabulary_is_cut_with_its_tokenizer(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    source, target = write_static_model(tmp_path), tmp_path / "small"
    compress_folder(source, target, Compression(STATIC_CORPUS, **options))
    expected, actual = embed(source, STATIC_CORPUS), embed(target, STATIC_CORPUS)
    np.testing.assert_allclose(
        actual @ actual.T, expected @ expected.T, atol=0.2 if "int8" in options else 1e-4
    )
    if not options:
        np.testing.assert_array_equal(actual, expected)
    rows = len(load_file(target / "model.safetensors")["embeddings"])
    tokenizer = tokenizers.Tokenizer.from_file(str(target / "tokenizer.json"))
    assert (
        tokenizer.get_vocab_size()
        == rows
        < len(load_file(source / "model.safetensors")["embeddings"])
    )
    assert {*string.ascii_lowercase} <= {*tokenizer.get_vocab()}  # other words can be spelled


def unigram(folder: Path) -> Path:
    """A StaticEmbedding with a Unigram vocabulary."""
    pieces = [("<unk>", 0.0), *((letter, -9.0) for letter in "▁abcdefghijklmnopqrstuvwxyz")]
    pieces += [("▁the", -2.0), ("▁work", -3.0), ("ork", -4.0), ("▁of", -3.5), ("others", -5.0)]
    rust = tokenizers.Tokenizer(models.Unigram(pieces, unk_id=0))
    rust.pre_tokenizer = pre_tokenizers.Metaspace()
    table = vectors(len(pieces))
    model = SentenceTransformer(
        modules=[st.StaticEmbedding(rust, embedding_weights=table)], device="cpu"
    )
    model.save_pretrained(str(folder), create_model_card=False)
    return folder


def test_a_unigram_vocabulary_is_cut_too(tmp_path: Path) -> None:
    source, target = unigram(tmp_path / "static"), tmp_path / "small"
    texts = ["the work", "zoo the"]
    compress_folder(source, target, Compression(texts))
    np.testing.assert_array_equal(embed(target, texts), embed(source, texts))
    theirs = SentenceTransformer(str(target), device="cpu").encode(texts)
    np.testing.assert_allclose(embed(target, texts), theirs, atol=1e-6)
    assert "ork" not in tokenizers.Tokenizer.from_file(str(target / "tokenizer.json")).get_vocab()


def test_a_vocabulary_of_merges_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "static"
    folder.mkdir()
    vocabulary = {"a": 0, "b": 1, "ab": 2}
    rust = tokenizers.Tokenizer(models.BPE(vocabulary, [("a", "b")]))
    rust.save(str(folder / "tokenizer.json"))
    (folder / "config.json").write_text('{"model_type": "model2vec"}')
    save_file({"embeddings": vectors(3)}, folder / "model.safetensors")
    with pytest.raises(ModelError, match="a vocabulary of BPE cannot be cut"):
        compress_folder(folder, tmp_path / "small", Compression(["ab"]))
    compress_folder(folder, tmp_path / "small", Compression(int8=True))


def test_what_is_no_table_and_what_follows_one_is_refused(
    tiny_bert: WriteModel, tmp_path: Path
) -> None:
    with pytest.raises(ModelError, match="is not a table of vectors"):
        compress_folder(tiny_bert(), tmp_path / "small", Compression(int8=True))
    (tmp_path / "corpus").write_text("the king\nthe queen", encoding="utf-8")
    path, choices = (
        write_text(tmp_path / "a.txt", vectors()),
        Choices(weights="sif", corpus=tmp_path / "corpus"),
    )
    convert_words(path, tmp_path / "words", choices)
    with pytest.raises(ModelError, match="modules after the mean"):
        compress_folder(tmp_path / "words", tmp_path / "small", Compression(dimensions=3))
    with pytest.raises(ModelError, match="contains no word of the table"):
        compress_folder(tmp_path / "words", tmp_path / "small", Compression(["nothing"]))
    (tmp_path / "small").mkdir()
    with pytest.raises(ModelError, match="exists already"):
        compress_folder(tmp_path / "words", tmp_path / "small", Compression(int8=True))


def test_scales_without_integers_are_refused(words: Path) -> None:
    path = words / "model.safetensors"
    table = load_file(path)["emb_layer.weight"]
    save_file({"emb_layer.weight": table, "emb_layer.scales": table[:, 0].copy()}, path)
    with pytest.raises(ModelError, match=r"emb_layer\.scales go with int8 rows"):
        Embedder.load(words, device="cpu")


def test_the_original_is_left_as_it_is(words: Path, tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in words.rglob("*") if path.is_file()}
    compress_folder(words, tmp_path / "small", Compression(CORPUS, 4, int8=True))
    assert before == {path: path.read_bytes() for path in words.rglob("*") if path.is_file()}
    config = json.loads((tmp_path / "small" / "2_Pooling" / "config.json").read_text())
    assert config["word_embedding_dimension"] == 4


SMALLER: dict[str, Compression] = {
    "codes": Compression(codes=4),
    "codes of fewer dimensions": Compression(dimensions=8, codes=4),
    "tiers": Compression(tiers=parse_bands("4:12,3:6,rest:2")),
    "tiers of integers": Compression(tiers=parse_bands("4:8,rest:2"), int8=True),
    "pool": Compression(hash_rows=9),
    "pool of fewer dimensions": Compression(dimensions=8, hash_rows=3),
    "tiers of fewer dimensions": Compression(dimensions=8, tiers=parse_bands("4:8,rest:2")),
}


@pytest.mark.parametrize("name", SMALLER)
def test_every_form_serves_the_same_rows_in_every_way(
    words: Path, tmp_path: Path, name: str
) -> None:
    compress_folder(words, tmp_path / "small", SMALLER[name])
    embedder = Embedder.load(tmp_path / "small", device="cpu")
    vectors_of_corpus = embedder.embed(CORPUS)
    alone = np.concatenate([embedder.embed([text]) for text in CORPUS])
    assert vectors_of_corpus.tobytes() == alone.tobytes()
    table = WordTable.of(ModelDescription.read(tmp_path / "small"))
    assert table is not None and len(table) == len(WORDS)
    ids = np.array(embedder.tokenize(["king the"])[0])
    np.testing.assert_array_equal(embedder.hidden([ids.tolist()], "token")[0], table[ids])
    everything: Floats = table[:]
    np.testing.assert_array_equal(everything[ids], table[ids])
    products = (everything @ table[ids[:1]].T)[: len(table), 0]
    question = by_metric("dot", table[ids[:1]], [[]])
    [[(best, score), *_]] = run_to_completion(NeighborTable(table, str).nearest(question, 3))
    assert best == products.argmax() and score == pytest.approx(products.max())


@pytest.mark.parametrize("name", SMALLER)
def test_every_form_of_a_static_table_is_decoded_when_it_is_loaded(
    tmp_path: Path, name: str
) -> None:
    source, target = write_static_model(tmp_path), tmp_path / "small"
    compress_folder(source, target, SMALLER[name])
    table = WordTable.of(ModelDescription.read(target))
    assert table is not None
    ids = Embedder.load(target, device="cpu").tokenize(["the work"])[0]
    expected = table[np.array(ids)].mean(axis=0)
    [actual] = Embedder.load(target, device="cpu", dtype="float32").encode([ids], normalized=False)
    np.testing.assert_allclose(actual, expected, atol=1e-6)
    assert Footprint.of(ModelDescription.read(target)).parameters == len(table) * table.table.width


def test_tiers_of_integers_are_near_to_those_of_floats(words: Path, tmp_path: Path) -> None:
    rows = []
    for int8 in (False, True):
        target = tmp_path / f"{int8}"
        compress_folder(words, target, Compression(int8=int8, tiers=parse_bands("4:12,rest:5")))
        table = WordTable.of(ModelDescription.read(target))
        assert table is not None
        rows.append(table[:])
    np.testing.assert_allclose(rows[1], rows[0], atol=0.02)
    assert not np.array_equal(rows[1], rows[0])


@pytest.mark.parametrize("model", ["words", "static"])
def test_codes_without_a_vector_are_refused(words: Path, tmp_path: Path, model: str) -> None:
    source = words if model == "words" else write_static_model(tmp_path)
    compress_folder(source, tmp_path / "small", Compression(codes=4))
    path = tmp_path / "small" / "model.safetensors"
    tensors = load_file(path)
    name = next(name for name in tensors if name.endswith(".codes"))
    tensors[name][3] = 255
    save_file(tensors, path)
    with pytest.raises(ModelError, match="codes has codes beyond"):
        Embedder.load(tmp_path / "small", device="cpu")


def test_memory_is_that_of_the_rows_as_they_are_stored(words: Path, tmp_path: Path) -> None:
    rows = len(WORDS) + 97  # with the buckets
    assert footprint_bytes(words, None) == rows * 12 * 4
    assert footprint_bytes(words, Compression(int8=True)) == rows * (12 + 4)
    assert footprint_bytes(words, Compression(codes=4)) == rows * 4 + 4 * rows * 3 * 4
    tiers = Compression(tiers=parse_bands("4:12,rest:5"))
    assert footprint_bytes(words, tiers) == 4 * (4 * 12 + (rows - 4) * 5 + 5 * 12)
    assert footprint_bytes(words, Compression(hash_rows=7)) == 4 * (7 * 12 + rows * 2)


def footprint_bytes(words: Path, compression: Compression | None) -> int:
    """The bytes in memory of a table, without the weights of its words."""
    folder = words
    if compression is not None:
        folder = words.parent / repr(compression)
        compress_folder(words, folder, compression)
    return Footprint.of(ModelDescription.read(folder)).memory["int8"] - 4 * (len(WORDS) + 97)


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"codes": 4, "int8": True}, "codes and int8"),
        ({"hash_rows": 4, "int8": True}, "hash rows and int8"),
        ({"codes": 4, "tiers": parse_bands("rest:2")}, "codes and tiers"),
        ({"codes": 4, "hash_rows": 4}, "codes and hash rows"),
    ],
    ids=str,
)
def test_forms_that_exclude_each_other_are_refused(options: dict[str, Any], names: str) -> None:
    with pytest.raises(ModelError, match=f"{names} exclude each other; choose one form"):
        Compression(**options)


def test_the_words_of_a_corpus_are_in_the_order_of_their_frequency(
    words: Path, tmp_path: Path
) -> None:
    texts = ["queen man man king", "man king"]
    compress_folder(words, tmp_path / "w", Compression(texts, tiers=parse_bands("1:12,rest:1")))
    tokenizer = Embedder.load(tmp_path / "w", device="cpu").tokenizer
    assert [tokenizer.name(id) for id in range(3)] == ["man", "king", "queen"]
    np.testing.assert_array_equal(embed(tmp_path / "w", ["man"]), embed(words, ["man"]))
    source, target = write_static_model(tmp_path), tmp_path / "small"
    texts = ["work the the", "the work of"]
    compress_folder(source, target, Compression(texts, tiers=parse_bands("2:12,rest:3")))
    np.testing.assert_array_equal(embed(target, ["the work"]), embed(source, ["the work"]))
    assert not np.allclose(embed(target, ["of"]), embed(source, ["of"]), atol=1e-3)
